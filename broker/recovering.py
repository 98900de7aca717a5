"""After an out-of-memory: whose doing it was, and whether and how the job is run again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from grn_zmq.records import DeviceFacts, Result, Scalar
from grn_zmq.units import format_bytes

from .jobs import Job
from .ledger import Lease, Ledger

MORE_ROOM: Final = 1
ALONE: Final = 2
# With at most this part of a device in the hands of others, all of it was the job's.
NEARLY_ALL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Again:
    """Run the job once more: with more room, alone, or (a victim) only more carefully."""

    level: int
    wary: bool


def is_culprit(lease: Lease, ledger: Ledger, result: Result) -> bool:
    """Whether the job wanted more than it was promised.

    One that did not say what it asked for is believed to be a victim only if somebody else
    is known to hold more than was counted on.
    """
    wanted = result.peak_bytes + result.asked_bytes
    if lease.measuring or lease.alone or wanted > lease.lease_bytes:
        return True
    if result.asked_bytes:
        return False
    others = [one for one in ledger.leases.values() if one.job_id != lease.job_id]
    outgrown = any(one.used_bytes > one.lease_bytes for one in others)
    return not outgrown and ledger.free_bytes() >= 0


def proved(
    job: Job,
    lease: Lease,
    ledger: Ledger,
    devices: Mapping[str, DeviceFacts],
    *,
    wanted_bytes: int,
) -> bool:
    """Whether it had all of the largest device: no other try can end better.

    Args:
        wanted_bytes: What it had, and asked for when it got no more.
    """
    total = ledger.facts.total_bytes
    small = NEARLY_ALL * total
    largest = max(one.total_bytes for one in devices.values())
    uncapped = not job.spec.enforce or lease.lease_bytes >= total - small
    had_all = not lease.shared and ledger.foreign_bytes + ledger.idle_bytes <= small
    # Else it was not this device that ran out: a limit of the process, perhaps.
    filled = wanted_bytes >= total / 2
    return filled and uncapped and had_all and total >= largest


def next_try(job: Job, *, culprit: bool, proof: bool) -> Again | None:
    """Give how to run it again; None if that is of no use, or was not asked for."""
    if proof or job.ooms > job.spec.oom_retries or job.level >= ALONE:
        return None
    if job.ooms == job.spec.oom_retries:
        return Again(ALONE, wary=False)  # the last try is the best there is
    return Again(max(job.level, MORE_ROOM), wary=False) if culprit else Again(job.level, True)


def report(
    job: Job,
    ledger: Ledger,
    result: Result,
    largest: tuple[Mapping[str, Scalar], int] | None,
    *,
    proof: bool,
) -> str:
    """Say why it is given up: the figures, and what did fit."""
    facts = ledger.facts
    reached = f"it had reached {format_bytes(result.peak_bytes)}"
    if result.asked_bytes:
        reached += f" and asked for {format_bytes(result.asked_bytes)} more"
    where = f"{facts.kind}:{facts.index} ({format_bytes(facts.total_bytes)})"
    tries = "" if job.ooms == 1 else f" {job.ooms} times, the last time"
    having = "with all of" if proof else "on"
    parts = [f"{job.spec.job_type} ran out of memory{tries} {having} {where}: {reached}."]
    if proof:
        parts.append("It cannot fit here.")
    elif job.spec.oom_retries == 0:
        parts.append("It was not run again because of oom_retries=0.")
    if largest is not None:
        by, peak_bytes = largest
        fitting = ", ".join(f"{name}={value}" for name, value in by.items())
        mine = ", ".join(f"{name}={value}" for name, value in job.spec.by.items())
        parts.append(
            f"With {fitting} it did fit ({format_bytes(peak_bytes)}), not with {mine}."
        )
    return " ".join(parts)
