"""`grn ps`: the jobs."""

from collections.abc import Sequence

import click

from ..facts import JobRow
from .common import WholeNumber, json_option, one_line_errors, print_json, say
from .jobtable import print_jobs
from .listing import all_jobs, called, job_facts
from .matching import matching
from .refs import find_rows, some_refs_argument
from .states import FAILURES, LIVE, parse_states, state_of


def _states(
    _: click.Context, __: click.Parameter, texts: Sequence[str]
) -> frozenset[str] | None:
    try:
        return frozenset().union(*map(parse_states, texts)) if texts else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@some_refs_argument
@click.option("--all", "-a", "ended", is_flag=True, help="Also jobs that have ended.")
@click.option(
    "--state",
    "-t",
    "states",
    multiple=True,
    callback=_states,
    metavar="STATES",
    help="Only jobs in these states, in words or codes: queued,running or PD,R.",
)
@click.option("--failed", is_flag=True, help="Only jobs that ended, but not well.")
@click.option("--name", metavar="GLOB", help="Only jobs called so, such as 'sweep-*'.")
@click.option("--type", "job_type", metavar="TYPE", help="Only of this job type, or its end.")
@click.option(
    "--limit", "-n", type=WholeNumber(min=1), metavar="N", help="Only the last N of them."
)
@json_option
@one_line_errors
def ps(
    refs: Sequence[str],
    ended: bool,
    states: frozenset[str] | None,
    failed: bool,
    name: str | None,
    job_type: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List jobs: where they run, what they use, what they wait for, how they ended.

    \b
    grn ps                       what waits and runs
    grn ps --all --limit 20      what has ended, too; the last 20
    grn ps --state PD,R --json   what waits or runs, for machines
    grn ps --failed              what did not end well, until `grn clean` forgets it
    grn ps 3-7 @                 these jobs: numbers, names, ids, @ for the last one

    MEMORY is what a job uses of what it was promised; before it runs what it is expected to
    need, after its end its peak. WAIT and RUN are those of its last attempt. Codes: PD queued,
    H held, CF starting, R running, CD succeeded, F failed, K killed, OOM out of memory,
    TO over its time limit, CA cancelled, NF lost, DL waited too long. On a terminal the last
    two columns are cut to fit; elsewhere nothing is.
    """
    if failed:
        states = FAILURES if states is None else states | FAILURES
    past = ended or bool(states and states - LIVE)
    rows = find_rows(refs) if refs else all_jobs(ended=past)
    rows = chosen(rows, states, name, job_type)[-limit if limit else 0 :]
    if as_json:
        print_json([job_facts(row) for row in rows])
    elif rows:
        print_jobs(rows)
    else:
        say("No jobs" if past or refs else "No jobs (with --all, those that have ended)")


def chosen(
    rows: Sequence[JobRow],
    states: frozenset[str] | None,
    name: str | None,
    job_type: str | None,
) -> list[JobRow]:
    """Those of the jobs that all filters let through; a filter that is None lets all."""
    found = [row for row in rows if states is None or _is_in(row, states)]
    if name is not None:
        from fnmatch import fnmatchcase

        found = [row for row in found if fnmatchcase(called(row), name)]
    if job_type is not None:
        types = set(matching(job_type, (row.job_type for row in found)))
        found = [row for row in found if row.job_type in types]
    return found


def _is_in(row: JobRow, states: frozenset[str]) -> bool:
    """A held job is a queued one, too."""
    return row.state in states or state_of(row) in states
