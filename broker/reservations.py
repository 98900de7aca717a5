"""The one reservation there is at a time: made, respected, used up, given up."""

import math
from collections.abc import Callable, Iterator
from typing import Final

from .book import GIVEN_UP_S, Book
from .jobs import Job
from .ledger import Lease
from .peers import Worker
from .recovering import ALONE
from .reserving import (
    UNKNOWN_S,
    Drained,
    Reservation,
    drained,
    overdue,
    reserve,
    starving,
)
from .scheduler import DeviceView
from .waiting import ClassKey, WaitingClass, class_of

# How many of the first classes are looked at for one that starves.
LOOK_AHEAD: Final = 8


class Reservations:
    """Keeps a device for the first job in the queue that others keep overtaking."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.kept: Reservation | None = None
        self._kept_for: ClassKey | None = None
        self._again_at = -math.inf
        self.started_s = 0.0

    def is_for(self, job: Job) -> bool:
        return self.kept is not None and self._kept_for == class_of(job)

    def do_not_mind(self, waiting: WaitingClass, now: float) -> bool:
        """Whether jobs of a class would not delay whom a device is kept for."""
        kept = self.kept
        if kept is None or self._kept_for == waiting.key:
            return True
        length_s = waiting.duration_s
        return length_s is not None and now + length_s <= kept.shadow_at < math.inf

    def apply(self, view: DeviceView, job: Job, now: float) -> None:
        """Show a job only as much of the device as does not delay whom it is kept for."""
        kept = self.kept
        if kept is None or kept.worker != view.worker or self.is_for(job):
            return
        room = kept.room_for(view.free_bytes, self._ends_at(job, now))
        if room < view.free_bytes:
            view.held_for = self._book.jobs[kept.job_id].spec.job_type
            view.free_bytes = room

    def note_grant(self, worker: Worker, job: Job, lease: Lease, now: float) -> None:
        """Count what was started, and what is left beside the reservation."""
        duration_s = self._book.profiles.duration_s(job.key, "")
        self.started_s += UNKNOWN_S if duration_s is None else duration_s
        kept = self.kept
        if kept is None:
            return
        if self.is_for(job):
            self.kept = None
            return
        late = self._ends_at(job, now) > kept.shadow_at
        if kept.worker == worker.incarnation and late:
            kept.spare_bytes -= lease.lease_bytes

    def expire(self, now: float) -> None:
        """Let go of a device that did not drain in time, or for a job that waits no more."""
        kept = self.kept
        if kept is None:
            return
        job = self._book.jobs.get(kept.job_id)
        waits = job is not None and job in self._book.waiting
        worker = self._book.workers.get(kept.worker)
        if waits and worker is not None and now <= kept.until:
            assert job is not None
            if kept.until < math.inf or self._renew(kept, job, worker, now):
                return
        self.kept = None
        if worker is not None:
            worker.ledger.opened = True
        if waits and now > kept.until:
            self._again_at = now + (kept.until - kept.shadow_at)

    def _renew(self, kept: Reservation, job: Job, worker: Worker, now: float) -> bool:
        """Look again how a device drains; False if it is of no use any more."""
        again = self._drained_one(job, worker, now)
        silent = worker.suspect and now - worker.last_report > GIVEN_UP_S
        if again is None or silent:
            return False
        worker.ledger.opened |= again.spare_bytes > kept.spare_bytes
        # Never later: or those that end in time would put it off for ever.
        kept.shadow_at = min(kept.shadow_at, again.at)
        kept.spare_bytes = again.spare_bytes
        return True

    def consider(self, now: float, being_measured: Callable[[Job], bool]) -> None:
        """Keep a device for whoever starves, if there is none kept."""
        if self.kept is not None or now < self._again_at:
            return
        for _, waiting in self._book.waiting.ordered()[:LOOK_AHEAD]:
            job = waiting.head
            duration_s = waiting.duration_s
            waited_s = now - max(job.queued_at, job.opened_at)
            past_s = self.started_s - waiting.passed_s
            if not (job.level or starving(past_s, waited_s, duration_s)):
                continue
            if being_measured(job):
                continue
            self.kept = reserve(
                job.job_id,
                self._drained(job, now),
                now,
                duration_s,
                at_any_cost=job.level > 0 or overdue(waited_s, duration_s),
            )
            if self.kept is not None:
                self._kept_for = waiting.key
                return

    def soonest(self, job: Job, now: float) -> float:
        """When the first device is expected to have room for a job."""
        return min((one.at for one in self._drained(job, now)), default=math.inf)

    def _drained(self, job: Job, now: float) -> Iterator[Drained]:
        workers = [
            worker
            for worker in self._book.workers.values()
            if not worker.suspect and job.spec.pin in ("", worker.ledger.facts.uuid)
        ]
        least_size = self._book.alone_on_bytes(job, now)
        for worker in workers:
            large_enough = worker.ledger.facts.total_bytes >= least_size
            if large_enough and (one := self._drained_one(job, worker, now)):
                yield one

    def _drained_one(self, job: Job, worker: Worker, now: float) -> Drained | None:
        profiles = self._book.profiles
        found = profiles.estimate(job.key, worker.ledger.facts, job.spec.memory_bytes)
        return drained(
            worker.incarnation,
            worker.ledger,
            lease_bytes=1 if found is None else found.lease_bytes,
            whole=found is None or job.level >= ALONE or job.spec.exclusive,
            now=now,
            duration=profiles.duration_s,
        )

    def _ends_at(self, job: Job, now: float) -> float:
        duration_s = self._book.profiles.duration_s(job.key, "")
        return math.inf if duration_s is None else now + duration_s
