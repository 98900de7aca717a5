"""The options of what is queued and left alone: grids, what to wait for, and what to say."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from ..refcheck import check_ref
from .begin import seconds_until
from .joboptions import checked, with_options
from .sweeps import parse_array, parse_param

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _parsed(parse: Callable[[str], T]) -> Callable[..., Any]:
    """A callback that reads a text, or each of several, and refuses it in plain words."""

    def read(_: click.Context, __: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(parse, value))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


def _begin(text: str) -> float:
    return seconds_until(text, datetime.now())


_GRID: Final = (
    click.option(
        "--param",
        "params",
        multiple=True,
        callback=_parsed(parse_param),
        metavar="NAME=A,B",
        help="A job for each value, with {NAME} replaced by it; of several, for each "
        "combination.",
    ),
    click.option(
        "--array",
        callback=_parsed(parse_array),
        metavar="1-10",
        help="A job for each index (1-10, 0-100:20, 1,3,7): {array}, or GRN_ARRAY_TASK_ID.",
    ),
)
_WAITING: Final = (
    click.option(
        "--after",
        "--depends-on",
        multiple=True,
        callback=_parsed(check_ref),
        metavar="JOB",
        help="Start once these have succeeded: numbers, names, 3-7, @ for the last one.",
    ),
    click.option(
        "--after-any",
        multiple=True,
        callback=_parsed(check_ref),
        metavar="JOB",
        help="Start once these have ended, however they did.",
    ),
    click.option(
        "--begin",
        callback=_parsed(_begin),
        metavar="WHEN",
        help="Start then at the earliest: +2h, 23:00, tomorrow 8:00, 2031-11-19T08:00.",
    ),
    click.option("--hold", is_flag=True, help="Start only once `grn release` says so."),
    click.option(
        "--on-end",
        default="",
        callback=checked,
        metavar="HOOK",
        help="A command to run, or a URL to post to, at the end of each.",
    ),
)
_SAYING: Final = (
    click.option(
        "--wait", "--sync", is_flag=True, help="Wait for the end, and leave with its status."
    ),
    click.option(
        "--dry-run", is_flag=True, help="Print commands and options, and submit nothing."
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print only the numbers of the jobs."),
)


def queued_options(verb: F) -> F:
    """Give a verb the options about grids and about what to wait for."""
    return with_options(verb, (*_GRID, *_WAITING))


def saying_options(verb: F) -> F:
    """Give a verb the options about what it says, and when it leaves."""
    return with_options(verb, _SAYING)
