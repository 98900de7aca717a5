"""A device kept for a job that waited too long; others fill in where they do no harm."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from .cells import Key
from .ledger import Lease, Ledger
from .needs import Needs

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
    """From `shadow_at` on there is expected to be room; `spare_bytes` beside it, by worker.

    It is for whoever heads the class of the job that starved: equal jobs have equal rights.
    What it `needs` of its queue is kept as well.
    """

    job_id: str
    spare_bytes: dict[str, int]
    shadow_at: float
    until: float
    queue: str = ""
    needs: Needs = field(default_factory=dict)

    def room_for(self, worker: str, free_bytes: int, ends_at: float) -> int:
        """What another job may take of a device now."""
        if worker not in self.spare_bytes or self.in_time(ends_at):
            return free_bytes
        return min(free_bytes, self.spare_bytes[worker])

    def in_time(self, ends_at: float) -> bool:
        """Whether who ends then is gone before anything here is wanted."""
        return ends_at <= self.shadow_at < math.inf


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
    kept: Reservation,
    drained: Iterable[Drained],
    count: int,
    now: float,
    duration_s: float | None,
    *,
    at_any_cost: bool,
) -> Reservation | None:
    """Keep so many devices, those that have room first, if that is soon or must be.

    Args:
        kept: For whom, what of its queue, and when that is expected to be free.
    """
    soonest = sorted(drained, key=lambda one: one.at)[:count]
    if len(soonest) < count:
        return None
    kept.spare_bytes = {one.worker: one.spare_bytes for one in soonest}
    kept.shadow_at = max([kept.shadow_at, *(one.at for one in soonest)])
    span_s = 0.5 * max(SOON_S, duration_s or 0.0)
    if at_any_cost:
        return kept
    kept.until = kept.shadow_at + span_s
    return kept if kept.shadow_at - now <= span_s else None


def drained(
    worker: str,
    ledger: Ledger,
    lease_bytes: int,
    whole: bool,
    now: float,
    duration: Duration,
    *,
    guess: bool = False,
) -> Drained | None:
    """Say when so much is free there, by what its jobs are expected to take still.

    A job of unknown length ends "last": after all the others, at the end of time if it must,
    unless a `guess` is wanted.
    """
    ends = sorted(
        (
            (_ends_at(lease, ledger, now, duration, guess=guess), lease)
            for lease in ledger.leases.values()
        ),
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


def _ends_at(
    lease: Lease, ledger: Ledger, now: float, duration: Duration, *, guess: bool
) -> float:
    expected_s = duration(lease.key, ledger.facts.device_class)
    lasted_s = now - lease.granted_at
    if expected_s is None and not guess:
        return math.inf
    return now + left_s(expected_s, lasted_s)


def left_s(expected_s: float | None, lasted_s: float) -> float:
    """How long a job that has lasted so long is thought to take still.

    Of unknown length: as long again as it has lasted already.
    """
    if expected_s is None:
        return max(UNKNOWN_S, lasted_s)
    if lasted_s >= expected_s:
        return 0.5 * lasted_s
    return max(expected_s - lasted_s, 0.25 * expected_s)
