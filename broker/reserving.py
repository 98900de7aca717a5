"""A device kept for a job that waited too long; others fill in where they do no harm."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from .cells import Key
from .ledger import Lease, Ledger

# Work of others started past a job before it is said to starve, in multiples of its own.
PATIENCE: Final = 20.0
# What counts as the length of a job, or a wait, of which nothing is known.
UNKNOWN_S: Final = 60.0
# Draining a device for long hurts everybody: only for what is free soon. "Soon" is half of
# the job's own length, or of this.
SOON_S: Final = 300.0
# Past this a device is drained however long it takes: nothing waits for ever.
OVERDUE_S: Final = 600.0

Duration = Callable[[Key, str], float | None]


@dataclass(slots=True)
class Reservation:
    """From `shadow_at` on the device is expected to have room; `spare_bytes` beside it.

    It is for whoever heads the class of the job that starved: equal jobs have equal rights.
    """

    job_id: str
    worker: str
    shadow_at: float
    until: float
    spare_bytes: int

    def room_for(self, free_bytes: int, ends_at: float) -> int:
        """What another job may take of the device now."""
        in_time = ends_at <= self.shadow_at < math.inf
        return free_bytes if in_time else min(free_bytes, self.spare_bytes)


@dataclass(frozen=True, slots=True)
class Drained:
    """When one device would have room, and what would be left beside the job then."""

    worker: str
    at: float
    spare_bytes: int


def starving(started_past_s: float, waited_s: float, duration_s: float | None) -> bool:
    """Whether enough was started past a job to keep a device for it."""
    own_s = UNKNOWN_S if duration_s is None else duration_s
    return started_past_s > PATIENCE * own_s or overdue(waited_s, duration_s)


def overdue(waited_s: float, duration_s: float | None) -> bool:
    return waited_s > max(OVERDUE_S, PATIENCE * (duration_s or 0.0))


def reserve(
    job_id: str,
    drained: Iterable[Drained],
    now: float,
    duration_s: float | None,
    *,
    at_any_cost: bool,
) -> Reservation | None:
    """Keep the device that has room first, if that is soon or must be."""
    soonest = min(drained, key=lambda one: one.at, default=None)
    if soonest is None:
        return None
    span_s = 0.5 * max(SOON_S, duration_s or 0.0)
    if at_any_cost:
        return Reservation(job_id, soonest.worker, soonest.at, math.inf, soonest.spare_bytes)
    if soonest.at - now > span_s:
        return None
    until = soonest.at + span_s
    return Reservation(job_id, soonest.worker, soonest.at, until, soonest.spare_bytes)


def drained(
    worker: str, ledger: Ledger, lease_bytes: int, whole: bool, now: float, duration: Duration
) -> Drained | None:
    """Say when so much is free there, by what its jobs are expected to take still.

    A job of unknown length ends "last": after all the others, at the end of time if it must.
    """
    ends = sorted(
        ((_ends_at(lease, ledger, now, duration), lease) for lease in ledger.leases.values()),
        key=lambda pair: pair[0],
    )
    free = ledger.free_bytes() + ledger.idle_bytes
    wanted = lease_bytes + (ledger.guard_bytes if ledger.leases else 0)
    at, left = now, len(ends)
    for end, lease in ends:
        if free >= wanted and not whole:
            break
        free += lease.charged_bytes
        at, left = max(at, end), left - 1
    if whole and left == 0:
        return Drained(worker, at, 0)
    return Drained(worker, at, free - lease_bytes) if free >= lease_bytes else None


def _ends_at(lease: Lease, ledger: Ledger, now: float, duration: Duration) -> float:
    expected_s = duration(lease.key, ledger.facts.device_class)
    if expected_s is None:
        return math.inf
    lasted_s = now - lease.granted_at
    if lasted_s >= expected_s:
        return now + 0.5 * lasted_s
    return now + max(expected_s - lasted_s, 0.25 * expected_s)
