"""`grn wait`: wait for jobs, and leave with their status."""

import math
import sys
import time
from collections.abc import Sequence
from typing import Final

import click

from ..facts import JobRow
from ..units import parse_seconds
from ..wire import AskJob, JobIs
from .asking import ask
from .attending import Attendant
from .common import fail, is_terminal, json_option, one_line_errors, print_json, printable, say
from .listing import job_facts
from .refs import find_rows, refs_argument
from .states import (
    LIVE,
    TIMED_OUT,
    exit_status_of,
    jobs_named,
    lines_about,
    reason_of,
    result_of,
)

_VERBS: Final = {
    "failed": "failed",
    "oom": "ran out of memory",
    "expired": "waited too long",
    "timed-out": "exceeded its time limit",
}


def _time(_: click.Context, __: click.Parameter, text: str | None) -> float:
    try:
        return math.inf if text is None else parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@refs_argument
@click.option("--any", "any_one", is_flag=True, help="Wait for the first of them only.")
@click.option(
    "--timeout",
    "timeout_s",
    callback=_time,
    metavar="TIME",
    help="Leave after so long with status 124, such as 90s, 15m or 2h; the jobs go on.",
)
@json_option
@one_line_errors
def wait(refs: Sequence[str], any_one: bool, timeout_s: float, as_json: bool) -> None:
    """Wait until jobs have ended; the status is that of the first of them that failed.

    \b
    grn wait @ && echo done      the job submitted last
    grn wait 3-7 --timeout 2h    all of these, but no longer than that
    grn wait --any 3 4 5         the first one that ends

    The status is the job's own, 124 if it exceeded its time limit, 128 + n if signal n ended
    it, 130 if it was cancelled, 1 for other failures. Ctrl-C leaves; the jobs go on.
    """
    found = find_rows(refs)
    if waits := _live(found):
        _tell([f"waiting for {jobs_named(waits)}"])
    rows = attend(found, any_one, timeout_s)
    ended = [row for row in rows if row.state not in LIVE]
    if as_json:
        print_json([job_facts(row) for row in rows])
    failed = [row for row in ended if row.state != "succeeded"]
    if any_one:
        fine = [(row.number, "has succeeded") for row in ended if row not in failed]
        _tell(lines_about(fine))
    for line in lines_about((row.number, how_it_ended(row)) for row in failed):
        say(f"grn: {printable(line)}", err=True)
    left = _live(rows)
    if left and not (any_one and ended):
        has = "has" if len(left) == 1 else "have"
        fail(f"{jobs_named(left)} {has} not ended within {timeout_s:g} s", TIMED_OUT)
    sys.exit(next(filter(None, map(exit_status_of, ended)), 0))


def _live(rows: Sequence[JobRow]) -> list[int]:
    return [row.number for row in rows if row.state in LIVE]


def _tell(lines: Sequence[str]) -> None:
    """Say something to who sits in front of it, and to nobody else."""
    for line in lines if is_terminal(sys.stderr) else ():
        say(f"grn: {line}", err=True)


def attend(rows: Sequence[JobRow], any_one: bool, seconds: float) -> list[JobRow]:
    """Wait for the end of all, or any, of these jobs; give their rows as they are then."""
    found = {row.job_id: row for row in rows}
    deadline = time.monotonic() + seconds
    with Attendant() as attendant:
        while left := [one.job_id for one in found.values() if one.state in LIVE]:
            if any_one and len(left) < len(found):
                break
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            for job_id in attendant.ended(left, left_s):
                found[job_id] = ask(AskJob(job_id), JobIs).row
    return list(found.values())


def how_it_ended(row: JobRow) -> str:
    """`failed (exit 3)`, `was cancelled`."""
    verb = _VERBS.get(row.state, f"was {row.state}")
    result = f" ({result_of(row)})" if result_of(row) else ""
    why = f": {reason_of(row)}" if reason_of(row) else ""
    return f"{verb}{result}{why}"
