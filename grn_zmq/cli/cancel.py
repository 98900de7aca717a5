"""`grn cancel`: end jobs, waiting or running."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from ..batches import parts
from ..facts import JobRow
from ..wire import Cancel, Cancelling
from .acting import IDS_PER_MESSAGE, Tally, leave_with_what_is_undone
from .asking import ask
from .common import counted, is_terminal, json_option, one_line_errors, print_json, say
from .listing import all_jobs
from .refs import find_rows, some_refs_argument
from .states import LIVE, jobs_named

# Kinds of job whose body is their caller's own process; and the states in which it may be.
_OF_CALLER: Final = frozenset({"inline", "lease"})
_BEGUN: Final = frozenset({"assigned", "running"})


@click.command()
@some_refs_argument
@click.option("--all", "-a", "all_live", is_flag=True, help="All jobs that wait or run.")
@click.option("--yes", "-y", is_flag=True, help="With --all, do not ask.")
@json_option
@one_line_errors
def cancel(refs: Sequence[str], all_live: bool, yes: bool, as_json: bool) -> None:
    """End jobs: those that wait never start, those that run get TERM, their grace, and KILL.

    \b
    grn cancel 12            one of them
    grn cancel 3-7 sweep @   some by number, by name, and the one submitted last
    grn cancel --all         whatever waits or runs; asks first on a terminal

    Returns when it is decided; `grn wait` waits until they are gone. Status 1 if nothing was
    left to cancel.
    """
    if bool(refs) == all_live:
        raise click.UsageError("cancel what? Name jobs, or say --all")
    rows = find_rows(refs) if refs else all_jobs(ended=False)
    if all_live and rows and not yes and not _sure(len(rows)):
        sys.exit(1)
    tally = cancelled(rows)
    if as_json:
        print_json(tally.facts())
    elif not rows:
        say("No jobs to cancel")
    else:
        _say_done(tally.done)
    leave_with_what_is_undone(tally)


def _sure(count: int) -> bool:
    if not is_terminal(sys.stdin):
        return True
    return click.confirm(f"End {counted(count, 'job')} that wait or run?", err=True)


def cancelled(rows: Sequence[JobRow]) -> Tally:
    """Ask for their end; say for which it was too late."""
    doomed: set[str] = set()
    held = {row.job_id: row for row in rows if row.kind in _OF_CALLER and row.state in _BEGUN}
    live = [row for row in rows if row.state in LIVE and row.job_id not in held]
    for part in parts([row.job_id for row in live], IDS_PER_MESSAGE):
        doomed |= set(ask(Cancel(part, interrupt=False), Cancelling).job_ids)
    tally = Tally()
    for row in rows:
        if row.job_id in held:
            what = "holds it" if row.kind == "lease" else "runs it itself"
            why = f"ends with the process that {what}: end that one (pid {row.client_pid})"
            tally.undone.append((row, why))
        elif row.job_id in doomed:
            tally.done.append(row)
        else:
            how = f": {row.state}" if row.state not in LIVE else ""
            tally.undone.append((row, f"has ended already{how}"))
    return tally


def _say_done(rows: Sequence[JobRow]) -> None:
    waiting = [row.number for row in rows if row.state == "queued"]
    running = [row.number for row in rows if row.state != "queued"]
    if waiting:
        say(f"Cancelled {jobs_named(waiting)}")
    if running:
        say(f"Ending {jobs_named(running)}: TERM, and after the grace KILL")
