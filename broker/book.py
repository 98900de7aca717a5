"""The lives of jobs: accepted once, ended once, and everybody who waits is told."""

from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, DeviceFacts, JobSpec, Outcome, Result

from .blobs import Blobs
from .effects import Effect, Note, Peer, Send
from .jobs import LEASED, Job, Step
from .ordering import OrderKey, order_key
from .peers import Session, Worker
from .profiles import Profiles
from .recovering import ALONE
from .sharing import Sharing
from .waiting import Waiting

# Ended jobs that lists and `attach` still find; the oldest go first.
KEEP_ENDED: Final = 10_000
KEEP_RESULT_S: Final = 7 * 24 * 3600.0
KEEP_RESULT_BYTES: Final = 1 << 30
# A worker that has been silent for so long is no longer waited for.
GIVEN_UP_S: Final = 60.0


class Book:
    """Jobs, queue, connected peers and profiles: the state all handlers share."""

    def __init__(self, epoch: int, pid: int, profiles: Profiles) -> None:
        self.epoch = epoch
        self.pid = pid
        self.jobs: dict[str, Job] = {}
        self.ended: dict[str, None] = {}
        self._incomplete: dict[str, Job] = {}
        self.profiles = profiles
        self.sharing = Sharing()
        self.waiting = Waiting(self._order_of)
        # Set when a device is new or another than before: needs are reckoned anew.
        self.devices_changed = True
        # Set by whatever may let a waiting job start; without it no pass is needed.
        self.stirred = True
        self.sessions: dict[str, Session] = {}
        self.workers: dict[str, Worker] = {}
        # Every device that ever had a worker, as it was then: workers come back.
        self.devices: dict[str, DeviceFacts] = {}
        self.blobs = Blobs()
        self._numbers = 0
        self._result_bytes = 0

    def _order_of(self, job: Job) -> OrderKey:
        duration_s = self.profiles.duration_s(job.key, "")
        share = self._share_of(job) if duration_s else 0.0
        return order_key(job.spec.priority, job.queued_at, duration_s, share, job.number)

    def _share_of(self, job: Job) -> float:
        """The part of the largest device that a job is expected to need."""
        if not self.devices:
            return 0.0
        largest = max(self.devices.values(), key=lambda facts: facts.total_bytes)
        found = self.profiles.estimate(job.key, largest, job.spec.memory_bytes)
        return min(1.0, found.lease_bytes / largest.total_bytes) if found else 0.0

    def alone_on_bytes(self, job: Job, now: float) -> int:
        """The size of the device for a job's last try, which it has to itself; else 0.

        The largest there is, even if it has just fallen silent.
        """
        if job.level < ALONE:
            return 0
        sizes = [
            worker.ledger.facts.total_bytes
            for worker in self.workers.values()
            if job.spec.pin in ("", worker.ledger.facts.uuid)
            and (not worker.suspect or now - worker.last_report < GIVEN_UP_S)
        ]
        return max(sizes, default=0)

    def welcome(self, peer: Peer) -> Send:
        return Send(peer, wire.Welcome(wire.PROTOCOL, self.epoch, self.pid))

    def accept(self, session: Session, spec: JobSpec, now: float) -> Job:
        """Take a new job; it queues as soon as its blobs are here."""
        self._numbers += 1
        job = Job(spec, self._numbers, session.name, queued_at=now)
        if not spec.detached:
            job.watchers.add(session.name)
        self.jobs[job.job_id] = job
        job.missing = {digest for digest in job.digests if digest not in self.blobs}
        for digest in set(job.digests) - job.missing:
            self.blobs.hold(digest)
        self._note_parent(job)
        self.profiles.note_version(spec.job_type, spec.version)
        if job.missing:
            self._incomplete[job.job_id] = job
        else:
            self.waiting.add(job)
        return job

    def _note_parent(self, job: Job) -> None:
        """A job that submits is measured no longer, and keeps only what it uses."""
        parent = self.jobs.get(job.spec.parent)
        if parent is None or not parent.live:
            return
        parent.submitted_jobs = True
        if not job.spec.detached:
            parent.waiting_children += 1
            job.counted_by_parent = True
        if parent.state in LEASED:
            self.workers[parent.worker].ledger.shrink_to_use(parent.job_id)
            self.stirred = True

    def arrived(self, digest: str) -> list[Job]:
        """A missing blob is here: queue the jobs that lacked nothing else, and name them."""
        complete: list[Job] = []
        for job in [job for job in self._incomplete.values() if digest in job.missing]:
            self.blobs.hold(digest)
            job.missing.discard(digest)
            if not job.missing:
                del self._incomplete[job.job_id]
                self.waiting.add(job)
                complete.append(job)
        return complete

    def requeue(self, job: Job, why: str) -> list[Effect]:
        """Run the job once more; it is next in its class."""
        note = Note(why, facts_of(job))
        job.take(Step.REQUEUE)
        job.runs_stand_in = False
        job.worker = job.device = ""
        job.started_at = None
        self.waiting.add(job, first=True)
        return [note]

    def end(self, job: Job, step: Step, outcome: Outcome, now: float) -> list[Effect]:
        """Record the one outcome of a job, and tell whoever waits for it."""
        job.take(step)
        self.stirred = True  # a device may have been kept for it
        job.ended_at = now
        job.outcome = replace(outcome, outcome=job.state.value)
        job.drop_payload()
        self._result_bytes += len(outcome.payload)
        self.ended[job.job_id] = None
        for digest in set(job.digests) - job.missing:
            self.blobs.let_go(digest)
        job.missing.clear()
        self._incomplete.pop(job.job_id, None)
        if job.counted_by_parent:
            self.jobs[job.spec.parent].waiting_children -= 1
            job.counted_by_parent = False
        for name in job.watchers:
            self.sessions[name].unreceived.add(job.job_id)
        note = Note("ended", {**facts_of(job), "outcome": job.state.value})
        return [note, *self.tell(job, wire.Ended((job.outcome,)))]

    def tell(self, job: Job, message: wire.Message) -> list[Effect]:
        """Send this to everyone who waits for the job."""
        return [Send(self.sessions[name].peer, message) for name in sorted(job.watchers)]

    def end_attempts(self, worker: Worker, how: str, attempts: list[AttemptId]) -> list[Effect]:
        """Have a worker end these attempts, in as few messages as will do."""
        return [
            Send(worker.peer, wire.End(self.epoch, how, part))
            for part in parts(attempts, wire.MAX_JOBS_PER_MESSAGE)
        ]

    def hand_over(self, job: Job) -> None:
        """The caller of an attached job has its result, and nobody else was promised it."""
        job.handed_over = True
        self._drop_result(job)

    def _drop_result(self, job: Job) -> None:
        assert job.outcome is not None
        self._result_bytes -= len(job.outcome.payload)
        job.outcome = replace(job.outcome, payload=b"")

    def forget_old(self, now: float) -> None:
        """Let go of ended jobs that nobody will ask for again."""
        while self.ended:
            job = self.jobs[next(iter(self.ended))]
            old = now - (job.ended_at or now) > KEEP_RESULT_S
            many = len(self.ended) > KEEP_ENDED or self._result_bytes > KEEP_RESULT_BYTES
            if not (old or many) or job.waiting_children:
                return
            self._drop_result(job)
            for session in self.sessions.values():
                session.unreceived.discard(job.job_id)
            del self.ended[job.job_id]
            del self.jobs[job.job_id]


def outcome_of(job: Job, result: Result, now: float) -> Outcome:
    """What the client is told about a job that ran."""
    started_at = now if job.started_at is None else job.started_at
    return Outcome(
        job_id=job.job_id,
        outcome=result.outcome,
        exit_status=result.exit_status,
        signal=result.signal,
        device=job.device,
        peak_bytes=job.peak_bytes,
        seen=result.seen or job.submitted_jobs,  # it used devices through its jobs
        wait_s=max(0.0, started_at - job.queued_at),
        run_s=result.run_s,
        attempts=job.attempt,
        predicted_bytes=job.predicted_bytes,
        fit=0,
        error_type=result.error_type,
        error_text=result.error_text,
        need_bytes=0,
        largest_bytes=0,
        payload=result.payload,
    )


def outcome_without_result(
    job: Job, now: float, error_type: str = "", error_text: str = ""
) -> Outcome:
    """What the client is told about a job of which no result came."""
    started_at = now if job.started_at is None else job.started_at
    return Outcome(
        job_id=job.job_id,
        outcome="lost",
        exit_status=None,
        signal=None,
        device=job.device,
        peak_bytes=job.peak_bytes,
        seen=True,
        wait_s=max(0.0, started_at - job.queued_at),
        run_s=max(0.0, now - started_at),
        attempts=job.attempt,
        predicted_bytes=job.predicted_bytes,
        fit=0,
        error_type=error_type,
        error_text=error_text,
        need_bytes=0,
        largest_bytes=0,
        payload=b"",
    )


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


def wrong_version(peer: Peer, theirs: int) -> list[Effect]:
    text = f"this broker speaks protocol {wire.PROTOCOL}, you speak {theirs}"
    return [Send(peer, wire.Refused("version", text, ()))]


def not_for_you(peer: Peer, message: wire.Message, who: str) -> list[Effect]:
    text = f"{message.kind} is not a message of {who}"
    return [Note(text, level="warning"), Send(peer, wire.Refused("bad-request", text, ()))]
