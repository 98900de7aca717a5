"""Queues with their jobs, for `grn show`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...facts import JobRow, QueueRow
from ...units import format_seconds
from ...wire import AskQueues, QueuesAre
from ..asking import ask
from ..common import printable, say
from ..jobtable import colour_of_state, name_of, result_or_reason
from ..listing import all_jobs, job_facts, short_names
from ..states import CODES, LIVE, state_of
from ..tables import print_fitted
from ..when import has_begun
from .texts import headline, queue_facts, resources_text

HEADERS: Final = ("JOB", "STATE", "RESOURCES", "RUN", "NAME", "RESULT OR REASON")
# Of the jobs that have ended, so many of the last are listed unless all are asked for.
MOST_ENDED: Final = 20
_STATE: Final = 1
_ELASTIC: Final = 2


def all_queues() -> list[QueueRow]:
    """The queues by name, and at last the row of what is outside of them."""
    rows = ask(AskQueues(""), QueuesAre).rows
    return sorted(rows, key=lambda row: (not row.name, row.name))


def facts_of_queues(queues: Iterable[QueueRow]) -> list[dict[str, Any]]:
    """Queues for machines, each with all of its jobs."""
    jobs = _jobs_by_queue()
    return [
        queue_facts(one, [job_facts(job) for job in jobs.get(one.name, ())]) for one in queues
    ]


def print_queues(queues: Sequence[QueueRow], *, everything: bool) -> None:
    """Print queues and their jobs; of those that have ended all, or only the last."""
    jobs = _jobs_by_queue()
    for at, queue in enumerate(queues):
        if at:
            say("")
        say(printable(headline(queue)))
        _print_jobs(jobs.get(queue.name, ()), everything=everything)


def _jobs_by_queue() -> Mapping[str, list[JobRow]]:
    found: dict[str, list[JobRow]] = {}
    for row in all_jobs(ended=True):
        found.setdefault(row.queue, []).append(row)
    return found


def _print_jobs(rows: Sequence[JobRow], *, everything: bool) -> None:
    ended = [row for row in rows if row.state not in LIVE]
    left_out = set() if everything else {row.number for row in ended[:-MOST_ENDED]}
    shown = [row for row in rows if row.number not in left_out]
    if not shown:
        return
    names = short_names(row.job_type for row in shown)
    lines = [_cells(row, names[row.job_type]) for row in shown]
    print_fitted(
        HEADERS,
        lines,
        elastic=_ELASTIC,
        coloured=_STATE,
        colour_of=lambda line: colour_of_state(line[_STATE]),
    )
    if left_out:
        say(f"({len(left_out):,} that ended before are left out: --all lists them)")


def _cells(row: JobRow, type_name: str) -> tuple[str, ...]:
    state = state_of(row)
    return (
        str(row.number),
        f"{CODES[state]} {state}",
        resources_text(row) or "-",
        format_seconds(row.run_s) if has_begun(row) else "-",
        name_of(row, type_name),
        result_or_reason(row) or "-",
    )
