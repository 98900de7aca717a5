"""The one reservation there is at a time: made, respected, used up, given up."""

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Final

from .book import GIVEN_UP_S, Book
from .candidates import alone_on_bytes, count_of, eligible
from .estimates import Estimate
from .jobs import Job
from .ledger import Lease
from .needs import Needs, share_of, wants_whole
from .peers import Worker
from .recovering import ALONE
from .reserving import (
    UNKNOWN_S,
    Drained,
    Reservation,
    drained,
    left_s,
    overdue,
    reserve,
    starving,
)
from .scheduler import DeviceView
from .viewing import strangers_on
from .waiting import ClassKey, WaitingClass, class_of

# How many of the first classes are looked at for one that starves.
LOOK_AHEAD: Final = 8
NONE: Final = Fraction(0)


class Reservations:
    """Keeps a device for the first job in the queue that others keep overtaking."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.kept: Reservation | None = None
        self._kept_for: ClassKey | None = None
        self._again_at = -math.inf
        self.started_s = 0.0
        # What was kept last, and by need what that and the need are together.
        self._together: tuple[Needs, dict[int, tuple[Needs, Needs]]] = ({}, {})

    def is_for(self, job: Job) -> bool:
        return self.kept is not None and self._kept_for == class_of(job)

    def do_not_mind(self, waiting: WaitingClass, now: float) -> bool:
        """Whether jobs of a class would not delay whom something is kept for."""
        kept = self.kept
        if kept is None or self._kept_for == waiting.key:
            return True
        length_s = waiting.duration_s
        if length_s is None:
            length_s = waiting.head.spec.time_limit_s
        return length_s is not None and kept.in_time(now + length_s)

    def apply(self, view: DeviceView, job: Job, now: float) -> None:
        """Show a job only as much of the device as does not delay whom it is kept for."""
        kept = self.kept
        if kept is None or view.worker not in kept.spare_bytes or self.is_for(job):
            return
        if kept.job_id not in self._book.jobs:  # forgotten while the queue is paused
            return
        room = kept.room_for(view.worker, view.free_bytes, self._ends_at(job, now))
        if room < view.free_bytes:
            view.held_for = self._book.jobs[kept.job_id].spec.job_type
            view.free_bytes = room

    def keeps_from(self, job: Job, needs: Needs, now: float) -> bool:
        """Whether what a job needs of its queue is kept for another."""
        kept = self.kept
        if kept is None or not needs or kept.queue != job.spec.queue or self.is_for(job):
            return False
        if kept.job_id not in self._book.jobs:
            return False
        if kept.needs.keys().isdisjoint(needs):
            return False
        if self._book.queues.of(job).pools.fits(self._with_kept(kept, needs)):
            return False
        return not kept.in_time(self._ends_at(job, now))

    def _with_kept(self, kept: Reservation, needs: Needs) -> Needs:
        """What is kept and what a job needs, together; asked again and again for each."""
        of, known = self._together
        if of is not kept.needs:
            self._together = (kept.needs, known := {})
        found = known.get(id(needs))
        if found is None or found[0] is not needs:
            names = dict.fromkeys((*kept.needs, *needs))
            both = {one: kept.needs.get(one, NONE) + needs.get(one, NONE) for one in names}
            found = known[id(needs)] = (needs, both)
        return found[1]

    def note_grant(self, job: Job, leases: Iterable[tuple[Worker, Lease]], now: float) -> None:
        """Count what was started, and what is left beside the reservation."""
        duration_s = self._book.profiles.duration_s(job.key, "")
        self.started_s += UNKNOWN_S if duration_s is None else duration_s
        kept = self.kept
        if kept is None:
            return
        if self.is_for(job):
            self.kept = None
            return
        if kept.in_time(self._ends_at(job, now)):
            return
        for worker, lease in leases:
            if worker.incarnation in kept.spare_bytes:
                kept.spare_bytes[worker.incarnation] -= lease.lease_bytes

    def expire(self, now: float) -> None:
        """Let go of what did not drain in time, or is kept for a job that waits no more."""
        kept = self.kept
        if kept is None:
            return
        job = self._book.jobs.get(kept.job_id)
        waits = job is not None and job in self._book.waiting
        workers = [self._book.workers.get(one) for one in kept.spare_bytes]
        here = [one for one in workers if one is not None]
        if waits and len(here) == len(workers) and now <= kept.until:
            assert job is not None
            if kept.until < math.inf or self._renew(kept, job, here, now):
                return
        self.kept = None
        self._book.queues.opened = True
        for worker in here:
            worker.ledger.opened = True
        if waits and now > kept.until:
            self._again_at = now + (kept.until - kept.shadow_at)

    def _renew(
        self, kept: Reservation, job: Job, workers: Iterable[Worker], now: float
    ) -> bool:
        """Look again how devices drain; False if they are of no use any more."""
        if self._is_hopeless(job):
            return False
        shadow_at = self._ready_at(job, now)
        for worker in workers:
            again = self._drained_one(job, worker, now)
            silent = worker.suspect and now - worker.last_report > GIVEN_UP_S
            if again is None or silent:
                return False
            spare_bytes = kept.spare_bytes[worker.incarnation]
            worker.ledger.opened |= again.spare_bytes > spare_bytes
            kept.spare_bytes[worker.incarnation] = again.spare_bytes
            shadow_at = max(shadow_at, again.at)
        # Never later: or those that end in time would put it off for ever.
        kept.shadow_at = min(kept.shadow_at, shadow_at)
        return True

    def consider(self, now: float, being_measured: Callable[[Job], bool]) -> None:
        """Keep room for whoever starves, if none is kept; for several devices at once."""
        if self.kept is not None or now < self._again_at:
            return
        for _, waiting in self._book.waiting.ordered()[:LOOK_AHEAD]:
            job = waiting.head
            duration_s = waiting.duration_s
            waited_s = now - max(job.queued_at, job.opened_at)
            past_s = self.started_s - waiting.passed_s
            several = job.spec.gpus not in (0, 1)
            if not (several or job.level or starving(past_s, waited_s, duration_s)):
                continue
            count = count_of(self._book, job, now)
            if being_measured(job) or bool(count) != bool(job.spec.gpus):
                continue
            if self._is_hopeless(job):
                continue
            queue = self._book.queues.of(job)
            ready_at = self._ready_at(job, now)
            self.kept = reserve(
                Reservation(
                    job.job_id, {}, ready_at, math.inf, queue.name, queue.needs(job.spec)
                ),
                self._drained(job, now),
                count,
                now,
                duration_s,
                at_any_cost=job.level > 0 or overdue(waited_s, duration_s),
            )
            if self.kept is not None:
                self._kept_for = waiting.key
                return

    def _is_hopeless(self, job: Job) -> bool:
        """Whether no room would let it start: something else keeps it."""
        queue = self._book.queues.of(job)
        needs = queue.needs(job.spec)
        return (
            queue.full()
            or not eligible(self._book, job)
            or bool(needs and queue.pools.impossible(needs))
        )

    def soonest(self, job: Job, now: float) -> float:
        """When there is expected to be room for a job."""
        count = count_of(self._book, job, now)
        ends = sorted(one.at for one in self._drained(job, now))[:count]
        if len(ends) < count:
            return math.inf
        return max([self._ready_at(job, now), *ends])

    def _ready_at(self, job: Job, now: float) -> float:
        """When its queue is expected to have what it needs."""
        queue = self._book.queues.of(job)
        needs = queue.needs(job.spec)
        if not needs:
            return now
        return queue.pools.ready_at(needs, lambda one: self._holder_ends_at(one, now), now)

    def _holder_ends_at(self, job_id: str, now: float) -> float:
        job = self._book.jobs[job_id]
        started_at = now if job.started_at is None else job.started_at
        return now + left_s(self._length_s(job), now - started_at)

    def _drained(self, job: Job, now: float) -> Iterator[Drained]:
        if not job.spec.gpus:
            return
        least_size = alone_on_bytes(self._book, job, now)
        for worker in eligible(self._book, job):
            large_enough = worker.ledger.facts.total_bytes >= least_size
            if large_enough and (one := self._drained_one(job, worker, now)):
                yield one

    def _drained_one(self, job: Job, worker: Worker, now: float) -> Drained | None:
        found = self._book.estimate(job, worker.ledger.facts)
        if found is not None and found.sure_bytes > worker.ledger.facts.total_bytes:
            return None
        if wants_whole(job.spec) and strangers_on(worker, job, self._book):
            return None  # who makes no room for anybody does not drain
        return drained(
            worker.incarnation,
            worker.ledger,
            lease_bytes=self._wanted_bytes(job, worker, found),
            whole=wants_whole(job.spec)
            or job.level >= ALONE
            or (found is None and not job.spec.share),
            now=now,
            duration=self._book.profiles.duration_s,
            guess=job.spec.gpus != 1,
        )

    def _wanted_bytes(self, job: Job, worker: Worker, found: Estimate | None) -> int:
        learned = 1 if found is None else found.lease_bytes
        share = share_of(job.spec)
        total = worker.ledger.facts.total_bytes - worker.ledger.foreign_bytes
        return learned if share is None else max(learned, int(share * total))

    def _ends_at(self, job: Job, now: float) -> float:
        length_s = self._length_s(job)
        return math.inf if length_s is None else now + length_s

    def _length_s(self, job: Job) -> float | None:
        """How long it takes, by what is known of its like, or what it may take at most."""
        known_s = self._book.profiles.duration_s(job.key, "")
        return job.spec.time_limit_s if known_s is None else known_s
