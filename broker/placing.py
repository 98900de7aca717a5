"""The scheduling pass: class heads against devices, until nothing more can be placed."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from grn_zmq.records import DeviceFacts

from .jobs import Job
from .ledger import NOBODY, Lease
from .peers import Worker
from .profiles import Key, Profiles
from .scheduler import DeviceView, Hold, Place, Refuse, Why, decide
from .waiting import Waiting


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


@dataclass(frozen=True, slots=True)
class Company:
    """Who does not count against a job: its ancestors, who wait for it."""

    beside: Set[str]
    uncounted: Set[str] = NOBODY


Verdict = Placed | RefusedJob | NeedsRoom


class Placer:
    """Decides for the whole queue. It grants leases; the core carries out the rest."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        waiting: Waiting,
        workers: Mapping[str, Worker],
        devices: Mapping[str, DeviceFacts],
        profiles: Profiles,
    ) -> None:
        self._jobs = jobs
        self._waiting = waiting
        self._workers = workers
        self._devices = devices
        self._profiles = profiles

    def run(self) -> Iterator[Verdict]:
        """Give one verdict after the other; the core must apply each before the next."""
        heads = self._heads()
        while heads:
            _, job = heappop(heads)
            company = Company(self.ancestors(job))
            decision = self._decide(job, company)
            if (
                isinstance(decision, Hold)
                and company.beside
                and decision.why is not Why.PROFILE
            ):
                # Waiting for memory that an ancestor holds would be waiting for oneself.
                company = self._company_of_last_resort(company)
                decision = self._decide(job, company)
            if isinstance(decision, Hold):
                self._waiting.hold(job, decision)
                yield from self._room_for(job, decision)
                continue
            self._waiting.remove(job)
            stopped = isinstance(decision, Place) and self._stop_measuring(company.beside)
            yield self._verdict(job, decision, company)
            if stopped:
                heads = self._heads()  # who had to keep away from a measuring run may join
            elif next_job := self._waiting.next_like(job):
                # In its turn: a long class must not overtake older jobs of another.
                heappush(heads, (next_job.number, next_job))

    def _heads(self) -> list[tuple[int, Job]]:
        heads = [(job.number, job) for job in self._waiting.heads()]
        heapify(heads)
        return heads

    def _verdict(self, job: Job, decision: Place | Refuse, company: Company) -> Verdict:
        if isinstance(decision, Refuse):
            return RefusedJob(job, decision.need_bytes, decision.largest_bytes)
        worker = self._workers[decision.worker]
        lease = Lease(
            job.job_id,
            job.attempt + 1,
            decision.lease_bytes,
            job.spec.job_type,
            measuring=decision.measuring,
            beside=company.beside,
            uncounted=company.uncounted,
        )
        worker.ledger.grant(lease)
        return Placed(job, worker, lease)

    def _stop_measuring(self, job_ids: Set[str]) -> bool:
        """A parent placed only after its jobs were submitted is not measured beside them."""
        stopped = False
        for worker in self._workers.values():
            lease = worker.ledger.measuring
            if lease is not None and lease.job_id in job_ids:
                worker.ledger.shrink_to_use(lease.job_id)
                stopped = True
        return stopped

    def _decide(self, job: Job, company: Company) -> Place | Hold | Refuse:
        spec = job.spec
        views = [
            self._view(worker, job, company)
            for worker in self._workers.values()
            if not worker.suspect and spec.pin in ("", worker.ledger.facts.uuid)
        ]
        measured_elsewhere = self._being_measured(spec.job_type, company.beside)
        decision = decide(spec.job_type, spec.policy, measured_elsewhere, views)
        return self._refuse_or_wait(job) if isinstance(decision, Refuse) else decision

    def _refuse_or_wait(self, job: Job) -> Hold | Refuse:
        """Refuse only what no device could hold, those that are silent or gone for now too."""
        devices = [
            facts for facts in self._devices.values() if job.spec.pin in ("", facts.uuid)
        ]
        needs = [self._profiles.need_bytes(job.key, facts.device_class) for facts in devices]
        totals = [facts.total_bytes for facts in devices]
        if any(need <= total for need, total in zip(needs, totals, strict=True)):
            text = "waiting for a device: the worker of one that is large enough is silent"
            return Hold(Why.NO_DEVICE, text)
        return Refuse(min(needs), max(totals))

    def _company_of_last_resort(self, company: Company) -> Company:
        """Leave out the bytes of ancestors too, and of all others if everybody only waits."""
        ignored = company.beside | self._all_if_all_wait()
        return Company(ignored, ignored)

    def ancestors(self, job: Job) -> Set[str]:
        """The live jobs that submitted this one, directly or through others."""
        found: set[str] = set()
        parent = self._jobs.get(job.spec.parent)
        while parent is not None and parent.live and parent.job_id not in found:
            found.add(parent.job_id)
            parent = self._jobs.get(parent.spec.parent)
        return found

    def _all_if_all_wait(self) -> Set[str]:
        """Every leased job, if each of them waits for jobs it submitted: none would end."""
        leased = [
            self._jobs[job_id]
            for worker in self._workers.values()
            for job_id in worker.ledger.leases
        ]
        if all(job.waiting_children for job in leased):
            return {job.job_id for job in leased}
        return NOBODY

    def _being_measured(self, job_type: str, ancestors: Set[str]) -> bool:
        measuring = (worker.ledger.measuring for worker in self._workers.values())
        return any(
            lease.job_type == job_type and lease.job_id not in ancestors
            for lease in measuring
            if lease is not None
        )

    def _view(self, worker: Worker, job: Job, company: Company) -> DeviceView:
        ledger = worker.ledger
        facts = ledger.facts
        measuring = ledger.measuring
        others = ledger.others(company.beside)
        view = DeviceView(
            worker=worker.incarnation,
            index=facts.index,
            total_bytes=facts.total_bytes,
            free_bytes=ledger.free_bytes(company.uncounted),
            idle=others == 0,
            has_place=ledger.max_jobs is None or others < ledger.max_jobs,
            being_measured=measuring is not None and measuring.job_id not in company.beside,
            need_bytes=None,
            lease_bytes=None,
        )
        if not self._profiles.knows(job.key):
            return view
        need, lease = self._sizes(job.key, facts, view.free_bytes, alone=view.idle)
        if job.spec.kind == "inline" and job.spec.pin and view.idle and view.free_bytes >= 0:
            # Its process has been here before: what seems foreign may be what it kept.
            lease = min(lease, view.free_bytes)
        return replace(view, need_bytes=need, lease_bytes=lease)

    def _sizes(
        self, key: Key, facts: DeviceFacts, room_bytes: int, *, alone: bool
    ) -> tuple[int, int]:
        """What a job of a known cell needs on this device, and what it is promised."""
        need = self._profiles.need_bytes(key, facts.device_class)
        lease = self._profiles.lease_bytes(key, facts.device_class, facts.total_bytes)
        if alone:
            # It may have all that strangers leave: its margin must not shut it out.
            lease = min(lease, max(need, room_bytes))
        return need, lease

    def _room_for(self, job: Job, hold: Hold) -> Iterator[NeedsRoom]:
        if hold.why is not Why.NO_ROOM:
            return
        for worker in self._workers.values():
            ledger = worker.ledger
            if not ledger.idle_bytes or worker.idle_asked or ledger.measuring:
                continue
            room = ledger.free_bytes() + ledger.idle_bytes
            lease = 1  # to be measured, any room will do
            if self._profiles.knows(job.key):
                _, lease = self._sizes(job.key, ledger.facts, room, alone=not ledger.leases)
            if room >= lease:
                yield NeedsRoom(worker)
