"""What the verbs share: errors as one line, facts as JSON, tables for people."""

import functools
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, ParamSpec, TextIO, TypeVar

import click

from ..errors import BrokerUnavailable, GrnError
from ..naming import printable as printable

UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
OVERFLOW: Final = "GRN_OVERFLOW"

P = ParamSpec("P")
R = TypeVar("R")

json_option = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
debug_option = click.option(
    "--debug", "-d", is_flag=True, help="Log every request, grant and completion."
)
failpoints_option = click.option(
    "--failpoints", default="", hidden=True, help="For tests: where orders to fail are."
)
devices_option = click.option(
    "--devices",
    metavar="WHICH",
    help="auto (default), nvml, nvml:0,2, nvml:GPU-<uuid>, host, host:4 or host:4x2GiB.",
)


class WholeNumber(click.IntRange):
    """An integer within limits; what is none is refused in plain words."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        most = "" if self.max is None else f" to {self.max}"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number from {self.min}{most}", param, ctx)
        if number < (self.min or 0) or (self.max is not None and number > self.max):
            self.fail(f"{number} is not from {self.min}{most}", param, ctx)
        return number


class Probability(click.FloatRange):
    """A probability that makes sense as a risk, as `broker/settings.py` says."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (self.min or 0.0) <= number <= (self.max or 1.0):
            self.fail(f"{value} is no probability from {self.min} to {self.max}", param, ctx)
        return number


RISK: Final = Probability(0.0001, 0.5)

overflow_option = click.option(
    "--overflow",
    type=RISK,
    metavar="P",
    help="How probable it may be that the jobs on a device outgrow it. "
    f"Default: 0.05, or what {OVERFLOW} says.",
)
max_jobs_option = click.option(
    "--max-jobs",
    type=WholeNumber(min=1),
    help="Jobs at once on each device. Default: memory alone decides on GPUs, "
    "max(2, cores / devices) on host memory.",
)


def check_environment() -> None:
    """Refuse what a broker that is about to be started would refuse, with the same status."""
    if value := os.environ.get(OVERFLOW):
        try:
            RISK.convert(value, None, None)
        except click.BadParameter as error:
            raise click.UsageError(f"Invalid value of {OVERFLOW}: {error.message}") from None


def one_line_errors(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn what can go wrong into one line on stderr and the right exit code."""

    @functools.wraps(verb)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except GrnError as error:
            if kwargs.get("as_json"):
                print_json({"error": str(error)})
            fail(str(error), UNREACHABLE if isinstance(error, BrokerUnavailable) else 1)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            _give_up(sys.stdout)  # whoever read our output has seen enough
            sys.exit(0)

    return guarded


def fail(text: str, status: int) -> NoReturn:
    say(f"grn: {printable(' '.join(text.splitlines()))}", err=True)
    sys.exit(status)


def say(text: str, *, err: bool = False) -> None:
    """Print a line, or nothing where the terminal or reader is gone."""
    try:
        click.echo(text, err=err)
    except OSError:
        _give_up(sys.stderr if err else sys.stdout)


def _give_up(stream: TextIO) -> None:
    """Send what is still buffered nowhere, so that flushing it at exit cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def counted(number: int, noun: str) -> str:
    """`1 device`, `1,200 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(facts: Any) -> None:
    click.echo(json.dumps(facts, indent=2))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; the last one may be as long as it likes."""
    cells = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    plain = False if os.environ.get("NO_COLOR") else None  # None: colours on terminals only
    click.secho(_line(headers, widths), bold=True, color=plain)
    for row in cells:
        click.echo(_line(row, widths))
    sys.stdout.flush()


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()
