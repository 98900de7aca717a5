"""`grn clean`: forget jobs that have ended."""

from collections.abc import Sequence

import click

from ..facts import JobRow
from ..units import parse_seconds
from ..wire import Clean
from .acting import order, report
from .common import json_option, one_line_errors, say
from .listing import all_jobs
from .refs import find_rows, some_refs_argument
from .states import FAILURES, LIVE


def _age(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@some_refs_argument
@click.option("--failed", is_flag=True, help="Those that did not end well.")
@click.option("--succeeded", is_flag=True, help="Those that succeeded.")
@click.option("--all", "-a", "all_ended", is_flag=True, help="All that have ended.")
@click.option(
    "--older-than",
    "older_than_s",
    callback=_age,
    metavar="TIME",
    help="Those that ended so long ago, such as 12h or 7d; with the others, only such.",
)
@json_option
@one_line_errors
def clean(
    refs: Sequence[str],
    failed: bool,
    succeeded: bool,
    all_ended: bool,
    older_than_s: float | None,
    as_json: bool,
) -> None:
    """Forget ended jobs, with their values and what they printed; what was learned stays.

    \b
    grn clean 3-7                         these
    grn clean --failed                    all that did not end well
    grn clean --succeeded --older-than 7d what succeeded a week ago or earlier
    grn clean --all                       all that have ended

    Jobs that wait or run are left alone. Status 1 if none of those named could be forgotten.
    """
    states = (FAILURES if failed else frozenset()) | ({"succeeded"} if succeeded else set())
    if not (refs or states or all_ended or older_than_s is not None):
        raise click.UsageError("clean what? Name jobs, or say --failed, --succeeded or --all")
    if refs and (states or all_ended):
        raise click.UsageError("name jobs, or say which ones by --failed, --succeeded, --all")
    rows = find_rows(refs) if refs else all_jobs(ended=True)
    if not refs:
        rows = [row for row in rows if row.state not in LIVE]
        rows = [row for row in rows if all_ended or not states or row.state in states]
    rows = [row for row in rows if older_than_s is None or _is_older(row, older_than_s)]
    if rows or as_json:
        report(order(Clean, rows), "Forgot", as_json)
    else:
        say("Nothing to forget")


def _is_older(row: JobRow, seconds: float) -> bool:
    return row.ended_s is not None and row.ended_s >= seconds
