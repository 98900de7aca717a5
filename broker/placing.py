"""The scheduling pass: class heads against devices, until nothing more can be placed."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Final

from . import company as companies
from .book import Book
from .candidates import able_devices, alone_on_bytes, count_of, eligible
from .company import ALONE, Company, ancestors
from .estimates import Kind
from .jobs import Job
from .ledger import Lease
from .missing import Missing, least_busy
from .needs import wants_whole
from .peers import Worker
from .reservations import Reservations
from .rooms import Rooms
from .scheduler import DeviceView, Hold, Place, Refuse, Why, Wish, decide
from .settings import Settings
from .sizing import Sizing
from .viewing import view_of
from .waiting import Heads, Waiter, WaitingClass

# How many jobs an unfinished first run vouches for; doubles with each that has settled.
FIRST_WINDOW: Final = 2


Leases = tuple[tuple[Worker, Lease], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A job that is about to start under this worker, with its leases, the worker's first."""

    job: Job
    worker: Worker
    leases: Leases


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """A job that can never run: too large for any device, or for the reason in `text`."""

    job: Job
    need_bytes: int
    largest_bytes: int
    text: str = ""


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
        self._missing = Missing(book, settings, self._reservations)
        self._sizing = Sizing(book, self._reservations)

    def run(self, now: float, *, everything: bool) -> Iterator[Verdict]:
        """Give one verdict after the other; the core must apply each before the next.

        Args:
            everything: Whether more than the arrival of jobs has changed; if not, only who
                has just come to the head of a class can have a chance.
        """
        stale = self._sizing.refresh()
        self._reservations.expire(now)
        rooms = self._rooms()
        changed = {waiting for _, waiting in stale}
        heads = Heads(self._candidates(stale, changed, rooms, everything=everything))
        while (waiting := heads.next()) is not None:
            among = self._among(waiting, rooms, changed, now)
            if among == []:
                continue
            job = waiting.head
            company = Company(ancestors(job, self._jobs))
            if company.beside and not self._missing.queue_fits(job, company.beside, now):
                company = companies.of_last_resort(company, self._jobs, self._workers)
            decision = self._decide(job, company, now, among)
            if isinstance(decision, Hold) and company.beside and decision.why != Why.PROFILE:
                # Waiting for what an ancestor holds would be waiting for oneself.
                company = companies.of_last_resort(company, self._jobs, self._workers)
                decision = self._decide(job, company, now)
            if isinstance(decision, Hold):
                if decision.why in (Why.NO_ROOM, Why.RESERVED):
                    yield from self._room_for(job)
                if decision.why is Why.DEVICES and self._reservations.kept is None:
                    # Before others take what it could have next.
                    self._reservations.consider(now, self._is_being_measured)
                    rooms.keep(self._reservations.kept, self._workers.values())
                continue
            self._waiting.remove(job)
            opened = isinstance(decision, Place) and self._stop_measuring(company.beside)
            opened |= self._reservations.is_for(job)
            verdict = self._verdict(job, decision, company, now)
            yield verdict
            self._sizing.refresh()
            if opened:  # who had to keep away may join
                rooms = self._rooms(anew=True)
                heads = Heads(self._waiting.ordered()[:])
                continue
            if isinstance(verdict, Placed):
                for worker, _ in verdict.leases:
                    rooms.look(worker)
            if waiting.jobs:
                heads.again(waiting)
        if everything:
            self._reservations.consider(now, self._is_being_measured)

    def _among(
        self, waiting: WaitingClass, rooms: Rooms, changed: Set[WaitingClass], now: float
    ) -> list[str] | None:
        """The workers that may have room for the head of a class; None if all must be asked.

        Without any there is nothing to decide, and that is so for most.
        """
        if waiting.least_bytes > rooms.roomiest_bytes:
            return []
        if waiting.needs and not self._missing.may_fit(waiting, now):
            return []
        if not waiting.least_bytes:
            return None
        may_have_opened = waiting.needs or waiting in changed
        if waiting.least_bytes > rooms.opened_bytes and not may_have_opened:
            return []  # what had opened for it is taken by now
        in_time = self._reservations.do_not_mind(waiting, now)
        return rooms.for_need(waiting.least_bytes, waiting.variance, in_time=in_time)

    def why(self, job: Job, now: float) -> Hold | None:
        """What a queued job waits for, as things are now."""
        decision = self._decide(job, Company(ancestors(job, self._jobs)), now)
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
        return self._reservations.kept.job_id if self._reservations.kept else ""

    def _views(
        self, job: Job, company: Company, now: float, among: list[str] | None = None
    ) -> list[DeviceView]:
        workers = eligible(self._book, job)
        queue = self._book.queues.of(job)
        indices = None
        if queue.devices is not None:
            indices = queue.able_devices(job.spec, company.beside)
        views = [
            view_of(worker, job, company, self._book, self._sigmas)
            for worker in workers
            if (among is None or worker.incarnation in among)
            and (indices is None or str(worker.ledger.facts.index) in indices)
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
        opened, roomiest = rooms.opened_bytes, rooms.roomiest_bytes
        given_back, self._book.queues.opened = self._book.queues.opened, False
        some_idle = any(
            not worker.ledger.leases for worker in self._workers.values() if not worker.suspect
        )
        # Of whom no need is known, some wait for an ancestor, or are to be refused.
        return [
            one
            for one in self._waiting.ordered()
            if (one[1].least_bytes <= opened and (some_idle or not one[1].unmeasured))
            or one[1] in changed
            or (given_back and one[1].needs and one[1].least_bytes <= roomiest)
        ]

    def _verdict(
        self, job: Job, decision: Place | Refuse, company: Company, now: float
    ) -> Verdict:
        if isinstance(decision, Refuse):
            return RefusedJob(job, decision.need_bytes, decision.largest_bytes, decision.text)
        worker = self._workers[decision.worker]
        parts = [(decision.worker, decision.lease_bytes)] if decision.device else []
        leases = [
            self._lease(self._workers[name], lease_bytes, job, decision, company, now)
            for name, lease_bytes in (*parts, *decision.others)
        ]
        indices = [one.ledger.facts.index for one, _ in leases]
        self._book.queues.grant(job, indices, company.beside)
        self._reservations.note_grant(job, leases, now)
        return Placed(job, worker, tuple(leases))

    def _lease(
        self,
        worker: Worker,
        lease_bytes: int,
        job: Job,
        decision: Place,
        company: Company,
        now: float,
    ) -> tuple[Worker, Lease]:
        """Promise a job what was decided on one of its devices."""
        declared = job.spec.share != ""
        lease = Lease(
            job.job_id,
            job.attempt + 1,
            lease_bytes,
            job.key,
            measuring=decision.measuring,
            beside=company.beside,
            uncounted=company.uncounted,
            # Where the size was declared there is nothing to be uncertain about.
            estimate=None if declared else self._book.estimate(job, worker.ledger.facts),
            alone=decision.alone,
            guest=worker.incarnation != decision.worker,
            declared=declared,
        )
        worker.ledger.grant(lease, now)
        return worker, lease

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
        missing = self._missing.of(job, company.beside, now)
        if missing is not None:
            return missing
        if not spec.gpus:
            return least_busy(eligible(self._book, job), self._jobs)
        views = self._views(job, company, now, among)
        wish = Wish(
            spec.job_type,
            spec.policy,
            type_being_measured=any(view.estimate is None for view in views)
            and self._being_measured(spec.job_type, company.beside),
            window_full=self._window_full(job, views),
            alone_on_bytes=alone_on_bytes(self._book, job, now),
            wary=job.wary,
            exclusive=wants_whole(spec),
            gpus=count_of(self._book, job, now),
            declared=spec.share != "",
        )
        decision = decide(wish, views)
        return self._refuse_or_wait(job) if isinstance(decision, Refuse) else decision

    def _refuse_or_wait(self, job: Job) -> Hold | Refuse:
        """Refuse only what no device could hold, those that are silent or gone for now too."""
        devices = able_devices(self._book, job)
        found = [self._book.estimate(job, facts) for facts in devices]
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
            if job.spec.share:
                wanted += view.headroom_bytes
            elif not view.idle:
                wanted += ledger.headroom_bytes(self._sigmas, job.key, view.estimate)
            if view.free_bytes + ledger.idle_bytes >= wanted:
                yield NeedsRoom(worker)
