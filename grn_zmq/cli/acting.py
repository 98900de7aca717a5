"""What the verbs share that do something to jobs: which ones, and what became of each."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .. import wire
from ..batches import parts
from ..facts import JobRow
from .asking import ask
from .common import print_json, printable, say
from .refs import find_rows
from .states import jobs_named, lines_about

IDS_PER_MESSAGE: Final = 1000


@dataclass(slots=True)
class Tally:
    """For which jobs it was done, and for which it could not be, with the reason."""

    done: list[JobRow] = field(default_factory=list)
    undone: list[tuple[JobRow, str]] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return {
            "done": [_names(row) for row in self.done],
            "undone": [{**_names(row), "why": why} for row, why in self.undone],
        }


def _names(row: JobRow) -> dict[str, Any]:
    return {"number": row.number, "job_id": row.job_id}


def order(make: Callable[[tuple[str, ...]], wire.Message], rows: Sequence[JobRow]) -> Tally:
    """Have it done to all of them, in as few messages as can be."""
    by_id = {row.job_id: row for row in rows}
    tally = Tally()
    for part in parts(list(by_id), IDS_PER_MESSAGE):
        answer = ask(make(part), wire.Acted)
        tally.done += [by_id[job_id] for job_id in answer.done]
        tally.undone += [(by_id[one.job_id], one.why) for one in answer.undone]
    return tally


def report(tally: Tally, done: str, as_json: bool) -> None:
    """Say what became of it: `Held jobs 3-5`; status 1 if nothing could be done."""
    if as_json:
        print_json(tally.facts())
    elif tally.done:
        say(f"{done} {jobs_named(row.number for row in tally.done)}")
    leave_with_what_is_undone(tally)


def leave_with_what_is_undone(tally: Tally) -> None:
    for line in lines_about((row.number, why) for row, why in tally.undone):
        say(f"grn: {printable(line)}", err=True)
    if tally.undone and not tally.done:
        sys.exit(1)


def act_on(
    refs: Sequence[str],
    make: Callable[[tuple[str, ...]], wire.Message],
    done: str,
    as_json: bool,
) -> None:
    """Find the jobs, have it done to them, and say what became of it."""
    report(order(make, find_rows(refs)), done, as_json)
