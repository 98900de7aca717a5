"""What the verbs share: errors as one line, facts as JSON, tables for people."""

import contextlib
import errno
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, ParamSpec, TextIO, TypeVar

import click

from ..config import BadSetting, read_config
from ..errors import BrokerUnavailable, GrnError
from ..naming import printable as printable

USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
# What writing fails with where the reader of a pipe has left, or the terminal is closed.
_GONE: Final = (errno.EPIPE, errno.EIO)

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
    help="auto (default), nvml, nvml:0,2, nvml:GPU-<uuid>, host, host:4 or host:4x2GiB. "
    "Setting: devices, GRN_DEVICES.",
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

name_option = click.option(
    "--name",
    metavar="NAME",
    help="Of one broker among several: letters, digits, -, _ and . Also: GRN_NAME.",
)

overflow_option = click.option(
    "--overflow",
    type=RISK,
    metavar="P",
    help="How probable it may be that the jobs on a device outgrow it. "
    "Default: 0.05. Setting: overflow, GRN_OVERFLOW.",
)
warm_option = click.option(
    "--warm",
    metavar="BOOLEAN",
    help="Whether job processes are forked from one that has imported what they need. "
    "Default: true. Setting: warm, GRN_WARM.",
)
max_jobs_option = click.option(
    "--max-jobs",
    type=WholeNumber(min=1),
    help="Jobs at once on each device. Default: memory alone decides on GPUs, "
    "max(2, cores / devices) on host memory. Setting: max_jobs, GRN_MAX_JOBS.",
)


def check_environment() -> None:
    """Refuse what a broker that is about to be started would refuse, with the same status."""
    try:
        read_config(os.environ)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


def job_default(name: str) -> Callable[[], Any]:
    """Give the default of an option of jobs, as the settings have it when it is asked for."""

    def read() -> Any:
        try:
            return getattr(read_config(os.environ).job, name)
        except BadSetting as error:
            fail(str(error), USAGE)

    return read


def one_line_errors(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn what can go wrong into one line on stderr and the right exit code."""

    @functools.wraps(verb)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except GrnError as error:
            if kwargs.get("as_json"):
                say(json.dumps({"error": str(error)}, indent=2))
            fail(str(error), _status_of(error))
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except OSError as error:
            _give_up(sys.stdout)
            if error.errno in _GONE:
                sys.exit(0)  # whoever read our output has seen enough
            fail(f"cannot go on: {_described(error)}", 1)

    return guarded


def _described(error: OSError) -> str:
    where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _status_of(error: GrnError) -> int:
    match error:
        case BrokerUnavailable():
            return UNREACHABLE
        case BadSetting():
            return USAGE
    return 1


def fail(text: str, status: int) -> NoReturn:
    say(f"grn: {printable(' '.join(text.splitlines()))}", err=True)
    sys.exit(status)


def say(text: str, *, err: bool = False) -> None:
    """Print a line, or nothing where the terminal or reader is gone."""
    try:
        click.echo(text, err=err)
    except OSError:
        _give_up(sys.stderr if err else sys.stdout)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal; a shell may have closed it, and then there is none."""
    return stream is not None and not stream.closed and stream.isatty()


def flush() -> None:
    """Have all of it written, or fail while there is still somebody to tell it."""
    if sys.stdout is not None:  # it is where a shell has closed it
        sys.stdout.flush()


def _give_up(stream: TextIO | None) -> None:
    """Send what is still buffered nowhere, so that flushing it at exit cannot fail."""
    if stream is None:
        return
    with contextlib.suppress(io.UnsupportedOperation):  # it is no file, as in a test
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def counted(number: int, noun: str) -> str:
    """`1 device`, `1,200 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(facts: Any) -> None:
    click.echo(json.dumps(facts, indent=2))
    flush()


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; the last one may be as long as it likes."""
    cells = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    plain = False if os.environ.get("NO_COLOR") else None  # None: colours on terminals only
    click.secho(_line(headers, widths), bold=True, color=plain)
    for row in cells:
        click.echo(_line(row, widths))
    flush()


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()
