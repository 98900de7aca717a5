"""The scheduling pass: class heads against devices, until nothing more can be placed."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final

from grn_zmq.records import DeviceFacts

from . import company as companies
from .book import Book
from .company import ALONE, Company, ancestors
from .estimates import Estimate, Kind
from .jobs import Job
from .ledger import Lease
from .peers import Worker
from .reservations import Reservations
from .rooms import Rooms
from .scheduler import DeviceView, Hold, Place, Refuse, Why, Wish, decide
from .settings import Settings
from .viewing import view_of
from .waiting import Heads, Waiter, WaitingClass

# Classes whose need is reckoned anew in one pass.
MOST_SIZED: Final = 64
# How many jobs an unfinished first run vouches for; doubles with each that has settled.
FIRST_WINDOW: Final = 2


@dataclass(frozen=True, slots=True)
class Placed:
    job: Job
    worker: Worker
    lease: Lease


@dataclass(frozen=True, slots=True)
class RefusedJob:
    job: Job
    need_bytes: int
    largest_bytes: int


@dataclass(frozen=True, slots=True)
class NeedsRoom:
    """A job would fit here if idle job processes were ended."""

    worker: Worker


Verdict = Placed | RefusedJob | NeedsRoom


class Placer:
    """Decides for the whole queue. It grants leases; the core carries out the rest."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._jobs = book.jobs
        self._waiting = book.waiting
        self._workers = book.workers
        self._devices = book.devices
        self._profiles = book.profiles
        self._sigmas = settings.sigmas
        self._book = book
        self._reservations = Reservations(book)
        self._stale: dict[WaitingClass, None] = {}

    def run(self, now: float, *, everything: bool) -> Iterator[Verdict]:
        """Give one verdict after the other; the core must apply each before the next.

        Args:
            everything: Whether anything but the arrival of jobs has changed. If not, only
                who has just come to the head of a class can have a chance.
        """
        stale = self._refresh()
        self._reservations.expire(now)
        rooms = self._rooms()
        changed = {waiting for _, waiting in stale}
        heads = Heads(self._candidates(stale, changed, rooms, everything=everything))
        while (waiting := heads.next()) is not None:
            among = None
            if waiting.least_bytes > rooms.opened_bytes and waiting not in changed:
                continue  # what had opened for it is taken by now
            if waiting.least_bytes:
                in_time = self._reservations.do_not_mind(waiting, now)
                among = rooms.for_need(waiting.least_bytes, waiting.variance, in_time=in_time)
                if not among:
                    continue
            job = waiting.head
            company = Company(ancestors(job, self._jobs))
            decision = self._decide(job, company, now, among)
            if (
                isinstance(decision, Hold)
                and company.beside
                and decision.why is not Why.PROFILE
            ):
                # Waiting for memory that an ancestor holds would be waiting for oneself.
                company = companies.of_last_resort(company, self._jobs, self._workers)
                decision = self._decide(job, company, now)
            if isinstance(decision, Hold):
                if decision.why in (Why.NO_ROOM, Why.RESERVED):
                    yield from self._room_for(job)
                continue
            self._waiting.remove(job)
            opened = isinstance(decision, Place) and self._stop_measuring(company.beside)
            opened |= self._reservations.is_for(job)
            verdict = self._verdict(job, decision, company, now)
            yield verdict
            self._refresh()
            if opened:  # who had to keep away may join
                rooms = self._rooms(anew=True)
                heads = Heads(self._waiting.ordered()[:])
                continue
            if isinstance(verdict, Placed):
                rooms.look(verdict.worker)
            if waiting.jobs:
                heads.again(waiting)
        if everything:
            self._reservations.consider(now, self._is_being_measured)

    def why(self, job: Job, now: float) -> Hold | None:
        """What a queued job waits for, as things are now."""
        company = Company(ancestors(job, self._jobs))
        decision = self._decide(job, company, now)
        return decision if isinstance(decision, Hold) else None

    def look(self, job: Job, now: float) -> list[DeviceView]:
        """The devices as this job sees them."""
        return self._views(job, Company(ancestors(job, self._jobs)), now)

    def expected_at(self, job: Job, now: float) -> float:
        """When a device is expected to have room for it; infinity if nobody can tell."""
        return self._reservations.soonest(job, now)

    @property
    def kept_for(self) -> str:
        """The job that a device is kept for, if one is."""
        kept = self._reservations.kept
        return kept.job_id if kept is not None else ""

    def _views(
        self, job: Job, company: Company, now: float, among: list[str] | None = None
    ) -> list[DeviceView]:
        workers = (
            self._workers.values() if among is None else [self._workers[one] for one in among]
        )
        views = [
            view_of(worker, job, company, self._book, self._sigmas)
            for worker in workers
            if not worker.suspect and job.spec.pin in ("", worker.ledger.facts.uuid)
        ]
        if not company.beside:  # a device drains only once the jobs of its jobs have run
            for view in views:
                self._reservations.apply(view, job, now)
        return views

    def _rooms(self, *, anew: bool = False) -> Rooms:
        """Look at the devices, as if all had opened since the last pass if `anew`."""
        workers = [worker for worker in self._workers.values() if not worker.suspect]
        for worker in workers:
            worker.ledger.opened |= anew
        rooms = Rooms(workers, self._sigmas, self._reservations.kept)
        for worker in workers:
            worker.ledger.opened = False
        return rooms

    def _candidates(
        self,
        stale: list[Waiter],
        changed: set[WaitingClass],
        rooms: Rooms,
        *,
        everything: bool,
    ) -> list[Waiter]:
        """The classes that may find room now, in order.

        Who found none at the last pass can only have a chance where something has opened
        since, unless its own need is another now: those are `stale`.
        """
        if not everything:
            return stale
        roomiest = rooms.opened_bytes
        some_idle = any(
            not worker.ledger.leases for worker in self._workers.values() if not worker.suspect
        )
        # Of whom no need is known, some wait for an ancestor, or are to be refused.
        return [
            one
            for one in self._waiting.ordered()
            if (one[1].least_bytes <= roomiest and (some_idle or not one[1].unmeasured))
            or one[1] in changed
        ]

    def _refresh(self) -> list[Waiter]:
        """Keep at hand what each waiting class needs at least; give those that changed."""
        if self._book.devices_changed:
            self._book.devices_changed = False
            self._stale |= dict.fromkeys(one for _, one in self._waiting.ordered())
        if self._profiles.changed:
            self._stale |= dict.fromkeys(self._waiting.of_types(self._profiles.changed))
            self._profiles.changed.clear()
        # A type that waits with hundreds of arguments is gone through bit by bit.
        stale = list(islice(self._stale, MOST_SIZED))
        for waiting in stale:
            del self._stale[waiting]
        fresh = [one for one in dict.fromkeys(self._waiting.fresh) if one.jobs]
        self._waiting.fresh.clear()
        for waiting in fresh:
            waiting.passed_s = self._reservations.started_s
        changed = [one for one in dict.fromkeys((*stale, *fresh)) if one.jobs]
        for waiting in changed:
            self._size(waiting)
        return sorted((waiting.order, waiting) for waiting in changed)

    def _size(self, waiting: WaitingClass) -> None:
        job = waiting.head
        waiting.least_bytes = 0
        waiting.unmeasured = False
        waiting.duration_s = self._profiles.duration_s(job.key, "")
        plain = not (job.spec.parent or job.spec.pin or job.level or job.spec.exclusive)
        if not plain or job.spec.kind == "inline":
            return
        known: list[Estimate] = []
        for facts in self._kinds_of_device():
            found = self._profiles.estimate(job.key, facts, job.spec.memory_bytes)
            if found is not None:
                if found.lease_bytes >= facts.total_bytes:
                    return  # to be refused, or content with less: look at it
                known.append(found)
        if not known:
            waiting.unmeasured = True
            return
        # On an idle device the need without margin will do.
        waiting.least_bytes = max(1, min(one.bare_bytes or one.lease_bytes for one in known))
        waiting.variance = min(one.noise_bytes**2 + one.bias_bytes**2 for one in known)

    def _kinds_of_device(self) -> list[DeviceFacts]:
        """One device of each class and size: equal ones lead to equal estimates."""
        kinds = {(one.device_class, one.total_bytes): one for one in self._devices.values()}
        return list(kinds.values())

    def _verdict(
        self, job: Job, decision: Place | Refuse, company: Company, now: float
    ) -> Verdict:
        if isinstance(decision, Refuse):
            return RefusedJob(job, decision.need_bytes, decision.largest_bytes)
        worker = self._workers[decision.worker]
        facts = worker.ledger.facts
        estimate = self._profiles.estimate(job.key, facts, job.spec.memory_bytes)
        lease = Lease(
            job.job_id,
            job.attempt + 1,
            decision.lease_bytes,
            job.key,
            measuring=decision.measuring,
            beside=company.beside,
            uncounted=company.uncounted,
            estimate=estimate,
            alone=decision.alone,
        )
        worker.ledger.grant(lease, now)
        self._reservations.note_grant(worker, job, lease, now)
        return Placed(job, worker, lease)

    def _stop_measuring(self, job_ids: Set[str]) -> bool:
        """A parent placed only after its jobs were submitted is not measured beside them."""
        stopped = False
        if not job_ids:
            return False
        for worker in self._workers.values():
            lease = worker.ledger.measuring
            if lease is not None and lease.job_id in job_ids:
                worker.ledger.shrink_to_use(lease.job_id)
                self._book.keeping.touch(self._jobs[lease.job_id])
                stopped = True
        return stopped

    def _decide(
        self, job: Job, company: Company, now: float, among: list[str] | None = None
    ) -> Place | Hold | Refuse:
        """Decide about one job, on all devices or only on those that may have room."""
        spec = job.spec
        views = self._views(job, company, now, among)
        wish = Wish(
            spec.job_type,
            spec.policy,
            type_being_measured=any(view.estimate is None for view in views)
            and self._being_measured(spec.job_type, company.beside),
            window_full=self._window_full(job, views),
            alone_on_bytes=self._book.alone_on_bytes(job, now),
            wary=job.wary,
            exclusive=spec.exclusive,
        )
        decision = decide(wish, views)
        return self._refuse_or_wait(job) if isinstance(decision, Refuse) else decision

    def _refuse_or_wait(self, job: Job) -> Hold | Refuse:
        """Refuse only what no device could hold, those that are silent or gone for now too."""
        devices = [
            facts for facts in self._devices.values() if job.spec.pin in ("", facts.uuid)
        ]
        found = [
            self._profiles.estimate(job.key, facts, job.spec.memory_bytes) for facts in devices
        ]
        needs = [one.sure_bytes if one else 0 for one in found]
        totals = [facts.total_bytes for facts in devices]
        if any(need <= total for need, total in zip(needs, totals, strict=True)):
            text = "waiting for a device: the worker of one that is large enough is silent"
            return Hold(Why.NO_DEVICE, text)
        return Refuse(min(needs), max(totals))

    def _being_measured(self, job_type: str, beside: Set[str]) -> bool:
        for worker in self._workers.values():
            lease = worker.ledger.measuring
            if lease is not None and lease.job_type == job_type and lease.job_id not in beside:
                return True
        return False

    def _is_being_measured(self, job: Job) -> bool:
        return self._being_measured(job.spec.job_type, ancestors(job, self._jobs))

    def _window_full(self, job: Job, views: list[DeviceView]) -> bool:
        """Whether as many run by an unfinished first run as it can vouch for."""
        kinds = {view.estimate.kind for view in views if view.estimate is not None}
        if Kind.SETTLED not in kinds:
            return False
        alike = [
            lease
            for worker in self._workers.values()
            for lease in worker.ledger.leases.values()
            if lease.key == job.key
        ]
        settled = sum(lease.settled for lease in alike)
        return len(alike) - settled >= FIRST_WINDOW << min(settled, 10)

    def _room_for(self, job: Job) -> Iterator[NeedsRoom]:
        for worker in self._workers.values():
            ledger = worker.ledger
            if not ledger.idle_bytes or worker.idle_asked or ledger.measuring:
                continue
            view = view_of(worker, job, ALONE, self._book, self._sigmas)
            wanted = view.lease_bytes or 1  # to be measured, any room will do
            if not view.idle:
                wanted += ledger.headroom_bytes(self._sigmas, job.key, view.estimate)
            if view.free_bytes + ledger.idle_bytes >= wanted:
                yield NeedsRoom(worker)
