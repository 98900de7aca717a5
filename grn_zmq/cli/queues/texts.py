"""Queues and what jobs have of them, in words for people and as facts for machines. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

from ...amounts import format_amount, parse_amount
from ...capacities import GPU
from ...facts import JobRow, QueueRow
from ..states import LIVE

# What the row without name is called: it has the jobs that name no queue.
OUTSIDE: Final = "Outside of queues"


def queue_facts(row: QueueRow, jobs: Sequence[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A queue for machines, with its jobs where they were asked for."""
    facts = {"kind": "queue", **asdict(row), "prefix": list(row.prefix)}
    return facts if jobs is None else {**facts, "jobs": list(jobs)}


def headline(row: QueueRow) -> str:
    """`Queue q1: gpu 2.5 of 4 left, cpu 12 of 16 left; 1 queued, 2 running, 3 ended`."""
    name = f"Queue {row.name}" if row.name else OUTSIDE
    left = ", ".join(
        f"{one} {_total(row.left.get(one, {}))} of {_total(amounts)} left"
        for one, amounts in row.capacity.items()
    )
    notes = [
        "deleted, goes with its last running job" if row.closing else "",
        f"at most {row.max_jobs} at once" if row.max_jobs is not None else "",
        f"runs {shlex.join(row.prefix)} …" if row.prefix else "",
    ]
    counts = f"{row.queued:,} queued, {row.running:,} running, {row.ended:,} ended"
    return f"{name}: {'; '.join(filter(None, [left, *notes, counts]))}"


def _total(amounts: Mapping[str, str]) -> str:
    return format_amount(sum(map(parse_amount, amounts.values()), Fraction(0)))


def has_text(granted: Mapping[str, Mapping[str, str]]) -> str:
    """What a job was given, `gpu:0=0.5 cpu:0,1,2,3`: of an instance of 1, all of it."""
    return " ".join(
        f"{name}:{','.join(map(_instance, instances.items()))}"
        for name, instances in granted.items()
    )


def _instance(one: tuple[str, str]) -> str:
    name, amount = one
    return name if amount == "1" else f"{name}={amount}"


def needs_text(row: JobRow) -> str:
    """What a job declared to need, `gpu=0.5 cpu=4`; nothing for what is usual."""
    gpus = row.share or str(row.gpus)
    if row.queue:
        devices = {GPU: gpus} if row.gpus else {}
    else:
        devices = {"gpus": gpus} if gpus != "1" else {}
    return " ".join(f"{name}={one}" for name, one in {**devices, **row.resources}.items())


def resources_text(row: JobRow) -> str:
    """What it has while it runs, and what it needs before and after."""
    return (has_text(row.granted) if row.state in LIVE else "") or needs_text(row)
