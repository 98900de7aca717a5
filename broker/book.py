"""The lives of jobs: accepted once, ended once, and everybody who waits is told."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, DeviceFacts, JobSpec, Outcome

from .adrift import Adrift
from .blobs import Blobs
from .changes import KeptSession
from .effects import Discard, Effect, Hook, Note, Peer, Send
from .ends import end_facts
from .estimates import Estimate
from .gates import Gates
from .handing import enqueue
from .jobs import LEASED, MOST_TRIED, NOTHING, Job, Step
from .keeping import Keeping
from .needs import class_on
from .ordering import OrderKey, order_key
from .patience import Fading, Patience
from .peers import NOBODY, Session, Worker
from .poison import Poison
from .profiles import Profiles
from .queues import Queues
from .settings import Settings
from .sharing import Sharing
from .trains import step_off
from .waiting import Waiting

# What a job is made of, if it is to be kept for another try after its end.
KEEP_INPUT_BYTES: Final = 1 << 20
# A worker that has been silent for so long is no longer waited for.
GIVEN_UP_S: Final = 60.0


class Book:
    """Jobs, queue, connected peers and profiles: the state all handlers share."""

    def __init__(self, epoch: int, pid: int, profiles: Profiles, settings: Settings) -> None:
        self.epoch = epoch
        self.pid = pid
        # The hook for the end of every job, if there is one.
        self.on_end = settings.on_end
        self.jobs: dict[str, Job] = {}
        self.ended: dict[str, None] = {}
        # Of these, who has a value in the journal; and who is of no more use to anybody.
        self.valued: dict[str, None] = {}
        self.spent: dict[str, None] = {}
        # Whose arguments are still here, so that people can have them run once more.
        self.retriable: dict[str, None] = {}
        self._incomplete: dict[str, Job] = {}
        self.profiles = profiles
        self.sharing = Sharing()
        self.waiting = Waiting(self._order_of)
        self.gates = Gates(self.jobs)
        self.paused = False
        # Set when a device is new or another than before: needs are reckoned anew.
        self.devices_changed = True
        # Set by whatever may let a waiting job start; without it no pass is needed.
        self.stirred = True
        self.sessions: dict[str, Session] = {}
        # How many live jobs each client submitted or watches, also one that is gone for now.
        self.bound: Counter[str] = Counter()
        self.workers: dict[str, Worker] = {}
        # Every device that ever had a worker, as it was then: workers come back.
        self.devices: dict[str, DeviceFacts] = {}
        self.adrift = Adrift()
        self.keeping = Keeping(self.workers, self.adrift, self.retriable)
        self.changes = self.keeping.changes
        self.queues = Queues(self.changes, settings.capacity)
        # When the last worker joined or died: others may be about to join as well.
        self.gathered_at = -math.inf
        # When the worker of a device that has none now was lost.
        self.left_at: dict[str, float] = {}
        self.blobs = Blobs(self.changes)
        self.patience = Patience()
        self.poison = Poison()
        self.fading = Fading()
        self.numbers = 0
        self.last_admitted = 0
        self.payload_bytes = 0
        # Attempts that workers claimed and nobody gave them: must never happen.
        self.alarms = 0
        self.stopping = False
        self.result_bytes = 0
        # How many jobs have ended since this broker started.
        self.ends = 0

    def _order_of(self, job: Job) -> OrderKey:
        duration_s = self.profiles.duration_s(job.key, "")
        share = self._share_of(job) if duration_s else 0.0
        return order_key(job.priority, job.queued_at, duration_s, share, job.number)

    def _share_of(self, job: Job) -> float:
        """The part of the largest device that a job is expected to need."""
        if not self.devices:
            return 0.0
        largest = max(self.devices.values(), key=lambda facts: facts.total_bytes)
        found = self.estimate(job, largest)
        return min(1.0, found.lease_bytes / largest.total_bytes) if found else 0.0

    def estimate(self, job: Job, facts: DeviceFacts) -> Estimate | None:
        """What a job is expected to need on each device; None if nothing was measured."""
        spec = job.spec
        if spec.kind == "lease":  # what its holder does with it says nothing of the next
            return None
        if spec.gpus not in (0, 1):
            facts = replace(facts, device_class=class_on(facts.device_class, spec.gpus))
        return self.profiles.estimate(job.key, facts, spec.memory_bytes)

    def welcome(self, peer: Peer, greeting: int = 0, protocol: int = wire.PROTOCOL) -> Send:
        message = wire.Welcome(protocol, self.epoch, self.pid, greeting)
        return Send(peer, message, protocol=protocol)

    def accept(self, session: Session, spec: JobSpec, now: float) -> Job:
        """Take a new job; it queues as soon as its blobs are here."""
        self.numbers += 1
        job = Job(spec, self.numbers, session.name, queued_at=now)
        self.jobs[job.job_id] = job
        self.bound[session.name] += 1
        if not spec.detached:
            job.watchers = (session.name,)
            self.keep_session(session)
        missing = frozenset(one for one in job.digests if one not in self.blobs)
        job.missing = missing or NOTHING
        for digest in set(job.digests) - job.missing:
            self.blobs.hold(digest)
        self._note_parent(job)
        self.queues.enter(job)
        self.profiles.note_version(spec.job_type, spec.version)
        self.payload_bytes += job.payload_bytes
        if job.missing:
            self._incomplete[job.job_id] = job
        else:
            self._begin_to_wait(job)
        return job

    def _begin_to_wait(self, job: Job) -> None:
        self._admit(job)
        self.gates.bar(job)
        self._enqueue(job)

    def _admit(self, job: Job) -> None:
        """Jobs are kept in the order of their numbers: one completed late gets a new one."""
        if job.number < self.last_admitted:
            self.numbers += 1
            job.number = self.numbers
            self.jobs[job.job_id] = self.jobs.pop(job.job_id)
        self.last_admitted = job.number

    def keep_session(self, session: Session) -> None:
        """Its attached jobs end with it, also if that happens while no broker looks."""
        if not session.stored:
            session.stored = True
            self.changes.keep_session(KeptSession(session.name, session.pid))

    def _enqueue(self, job: Job, *, first: bool = False) -> None:
        if job.gated:
            self.gates.add(job)
        else:
            self.waiting.add(job, first=first)
            self.patience.add(job)
        self.keeping.touch(job)

    def restore_queued(self, job: Job, now: float, *, was_gated: bool) -> None:
        """Take back a job that waits; a wait for others may have ended while nobody looked."""
        if not job.attempt:
            self.gates.bar(job)
        if was_gated:  # since when it may start is not kept: rather too late than too early
            job.opened_at = now
        if job.gated:
            self.gates.add(job)
        else:
            self.waiting.add(job)
            self.patience.add(job)

    def open(self, job: Job, now: float) -> None:
        """Nothing keeps this job from starting any more: it queues."""
        self.gates.remove(job)
        job.opened_at = now
        self._enqueue(job)

    def close(self, job: Job) -> None:
        """Keep a queued job from starting until it is released."""
        self.withdraw(job)
        job.held = True
        self._enqueue(job)

    def release(self, job: Job, now: float) -> None:
        """Let a held job start once nothing else keeps it."""
        job.held = False
        if not job.gated:
            self.open(job, now)

    def prioritise(self, job: Job, priority: int) -> None:
        """Give a queued job another place in the queue."""
        if job.missing:  # it is in no queue yet, and not kept
            job.priority = priority
            return
        if job in self.gates:
            job.priority = priority
        else:
            self.waiting.remove(job)
            job.priority = priority
            self.waiting.add(job)
        self.keeping.touch(job)

    def set_paused(self, paused: bool) -> None:
        """Let no job start, or let them start again; whoever follows this broker too."""
        self.paused = paused
        self.changes.batch.paused = paused
        self.stirred = True

    def withdraw(self, job: Job) -> None:
        """Take a queued job out, whether it may start or not."""
        self.stirred = True  # a device may have been kept for it
        if job in self.gates:
            self.gates.remove(job)
        else:
            self.waiting.remove(job)

    def queued(self) -> Iterator[Job]:
        """All that wait, those that may not start yet last."""
        yield from self.waiting
        yield from self.gates

    def _note_parent(self, job: Job) -> None:
        """A job that submits is measured no longer, and keeps only what it uses."""
        parent = self.jobs.get(job.spec.parent)
        if parent is None or not parent.live:
            return
        parent.submitted_jobs = True
        self.count_in(job)
        if parent.state in LEASED:
            worker = self.workers.get(parent.worker)
            if worker is not None and parent.job_id in worker.ledger.leases:
                worker.ledger.shrink_to_use(parent.job_id)
            self.keeping.touch(parent)
            self.stirred = True

    def count_in(self, job: Job) -> None:
        """Its parent waits for it, unless it is detached."""
        if not job.spec.detached:
            self.jobs[job.spec.parent].waiting_children += 1
            job.counted_by_parent = True

    def arrived(self, digest: str) -> list[Job]:
        """A missing blob is here: queue the jobs that lacked nothing else, and name them."""
        complete: list[Job] = []
        for job in [job for job in self._incomplete.values() if digest in job.missing]:
            self.blobs.hold(digest)
            job.missing = job.missing - {digest}
            if not job.missing:
                del self._incomplete[job.job_id]
                self._begin_to_wait(job)
                complete.append(job)
        return complete

    def requeue(self, job: Job, why: str, now: float) -> list[Effect]:
        """Run the job once more; it is next in its class."""
        note = Note(why, facts_of(job))
        ran_s = 0.0 if job.started_at is None else max(0.0, now - job.started_at)
        trial = (job.attempt, job.device, why, job.predicted_bytes, job.peak_bytes, ran_s)
        job.tried = (*job.tried, trial)[-MOST_TRIED:]
        job.take(Step.REQUEUE)
        self.leave(job, now)
        job.runs_stand_in = False
        job.worker = job.device = ""
        job.started_at = job.begun = None
        self._enqueue(job, first=True)
        return [note]

    def end(self, job: Job, step: Step, outcome: Outcome, now: float) -> list[Effect]:
        """Record the one outcome of a job, and tell whoever waits for it."""
        job.take(step)
        self.leave(job, now)
        self.queues.quit(job)
        self.stirred = True  # a device may have been kept for it
        job.ended_at = now
        job.begun = None
        job.outcome = replace(outcome, outcome=job.state.value)
        job.result_bytes = len(outcome.payload)
        self.result_bytes += job.value_bytes
        self.payload_bytes -= job.payload_bytes
        self.keeping.touch(job)
        self.ended[job.job_id] = None
        self.ends += 1
        self.gates.note_end(job)
        if job.value_bytes:
            self.valued[job.job_id] = None
        if self.can_be_had_again(job):
            self.retriable[job.job_id] = None
        else:
            self.let_go_of_blobs(job)
        job.missing = NOTHING
        if self._incomplete.pop(job.job_id, None):
            self._admit(job)
        if job.counted_by_parent:
            self.jobs[job.spec.parent].waiting_children -= 1
            job.counted_by_parent = False
        effects: list[Effect] = [Note("ended", {**facts_of(job), "outcome": job.state.value})]
        for command in dict.fromkeys(filter(None, (job.spec.on_end, self.on_end))):
            effects.append(Hook(command, end_facts(job)))
        if job.spec.token:
            effects.append(Discard(job.spec.token))
        for name in {job.session, *job.watchers}:
            self.unbind(name)
        for name in sorted(job.watchers):
            effects += enqueue(job, self.sessions[name], self.jobs)
        if not job.watchers and not job.spec.detached:
            self.fading.add(job, now)
        return effects

    def worker_at(self, name: str) -> Worker | None:
        """The worker that a device has now."""
        return next((one for one in self.workers.values() if one.name == name), None)

    def leave(self, job: Job, now: float) -> None:
        """The attempt is over: whatever it still has, wherever that is, can be had again."""
        if not (job.places or job.worker):
            return
        if worker := self.workers.get(job.worker):
            worker.leads.pop(job.job_id, None)
        self.step_off(job)
        for name in job.places:
            there = self.worker_at(name)
            if there is not None and job.job_id in there.ledger.leases:
                there.ledger.release(job.job_id, now)
        job.places = ()
        self.queues.release(job)

    def step_off(self, job: Job) -> bool:
        """It leaves its train, if it is in one; whether another holds its lease now."""
        train = job.train
        if train is None or not step_off(job, self.workers.get(job.worker)):
            return False
        self.queues.adopt(train.holder)
        self.queues.release(job)
        return True

    def can_be_had_again(self, job: Job) -> bool:
        """Whether to keep what this job was made of: small, and waited for by nobody."""
        if not job.spec.detached or job.spec.token or job.missing:
            return False
        sizes = [len(blob.data) for one in job.digests if (blob := self.blobs.get(one))]
        return job.payload_bytes + sum(sizes) <= KEEP_INPUT_BYTES

    def let_go_of_blobs(self, job: Job) -> None:
        """Neither it nor another try of it will need them."""
        for digest in set(job.digests) - job.missing:
            self.blobs.let_go(digest)

    def tell(self, job: Job, message: wire.Message) -> list[Effect]:
        """Send this to everyone who waits for the job and is here."""
        there = [self.sessions[name] for name in sorted(job.watchers)]
        there = [one for one in there if one.peer != NOBODY]
        return [Send(one.peer, message, protocol=one.protocol) for one in there]

    def watch(self, job: Job, session: Session) -> None:
        """This client is to be told how the job goes on."""
        if session.name not in job.watchers:
            job.watchers = (*job.watchers, session.name)
            self.bound[session.name] += session.name != job.session

    def unwatch(self, job: Job, name: str) -> None:
        """This client is gone, and told no more."""
        if name in job.watchers:
            job.watchers = tuple(one for one in job.watchers if one != name)
            if name != job.session:
                self.unbind(name)

    def unbind(self, name: str) -> None:
        self.bound[name] -= 1
        if not self.bound[name]:
            del self.bound[name]

    def end_attempts(self, worker: Worker, how: str, attempts: list[AttemptId]) -> list[Effect]:
        """Have a worker end these attempts, in as few messages as will do."""
        return [
            Send(worker.peer, wire.End(self.epoch, how, part))
            for part in parts(attempts, wire.MAX_JOBS_PER_MESSAGE)
        ]


def facts_of(job: Job) -> dict[str, object]:
    """What every log line about a job says."""
    return {
        "job": job.job_id[:8],
        "number": job.number,
        "type": job.spec.job_type,
        "attempt": job.attempt,
        "device": job.device,
        "peak_bytes": job.peak_bytes,
    }
