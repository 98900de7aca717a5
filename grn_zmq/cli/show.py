"""`grn show`: queues with their jobs, or all about one job."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from ..errors import GrnError
from ..logfiles import LogFiles
from ..paths import logs_directory
from ..wire import AskJob, JobIs
from .asking import ask
from .common import json_option, one_line_errors, print_json, printable, say
from .describing import LAST_LINES, Group, describe
from .listing import job_facts
from .queues.showing import all_queues, facts_of_queues, print_queues
from .refs import NoSuchJob, find
from .tables import use_colours
from .when import iso

# Jobs that a job names by id; of more only the ids are shown.
MOST_NAMED: Final = 20


@click.command()
@click.argument("refs", nargs=-1, metavar="[QUEUE|JOB]...")
@click.option(
    "--all", "-a", "everything", is_flag=True, help="Of a queue, all jobs that have ended."
)
@json_option
@one_line_errors
def show(refs: Sequence[str], everything: bool, as_json: bool) -> None:
    """Show queues with their jobs, or tell all about jobs: times, memory, how they ended.

    \b
    grn show                 all queues: what is left, what waits, runs and has ended
    grn show q1              one queue
    grn show 12              a job by its number: times, memory, attempts, options
    grn show @ sweep-lr01    the job submitted last, and one by its name
    grn show 3-5 --json      a list with one object for each

    A queue of that name comes first, else it is a job. RESOURCES is what a job has of its
    queue, instance by instance (gpu:0=0.5), and before and after that what it needs.
    """
    queues = all_queues()
    names = {row.name for row in queues if row.name}
    meant = [row for row in queues if row.name in refs and row.name] if refs else queues
    job_refs = [ref for ref in refs if ref not in names]
    try:
        jobs = [ask(AskJob(job_id), JobIs) for job_id in find(job_refs)] if job_refs else []
    except NoSuchJob as error:
        known = f"; the queues are {', '.join(sorted(names))}" if names else ""
        raise NoSuchJob(f"{error}{known}") from None
    if as_json:
        told = facts_of_queues(meant) if meant else []
        print_json([*told, *(facts_of(one, time.time()) for one in jobs)])
        return
    if meant:
        print_queues(meant, everything=everything)
    for at, one in enumerate(jobs):
        if at or meant:
            say("")
        groups = describe(one.row, one.detail, _log(one), _numbers(one), time.time())
        print_groups(groups)


def facts_of(one: JobIs, now_s: float) -> dict[str, Any]:
    """A job for machines: its row, its details, and its log."""
    detail = asdict(one.detail)
    begin_in_s = detail.pop("begin_in_s")
    begin_at = None if begin_in_s is None else iso(now_s + begin_in_s)
    return {
        **job_facts(one.row, now_s),
        **detail,
        "begin_at": begin_at,
        "log": _log(one) or None,
    }


def _log(one: JobIs) -> str:
    path = LogFiles(logs_directory(os.environ), one.row.job_id).log
    return str(path) if path.exists() else ""


def _numbers(one: JobIs) -> dict[str, int]:
    """The numbers of the jobs that it names, as far as they are still known."""
    named = [*filter(None, [one.detail.parent, one.row.again_of]), *one.detail.after]
    numbers = {}
    for job_id in named[:MOST_NAMED]:
        try:
            numbers[job_id] = ask(AskJob(job_id), JobIs).row.number
        except GrnError:
            continue  # forgotten since
    return numbers


def print_groups(groups: Sequence[Group]) -> None:
    """Print facts below their titles, names and values in columns."""
    width = max(len(name) for _, facts in groups for name, _ in facts)
    for title, facts in groups:
        say(click.style(title, bold=True) if use_colours() else title)
        for name, value in facts:
            if name == LAST_LINES:
                say(f"  {name}")
                for line in value.expandtabs().splitlines():
                    say(f"    {printable(line)}".rstrip())
            else:
                say(f"  {name.ljust(width)}  {printable(value)}")
