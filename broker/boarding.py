"""Many like calls at once: how they are accepted, placed behind each other, and come back.

All that they share is done once. Whatever is special about one of them, it is taken out and
goes the way of every other job.
"""

from typing import Final

from grn_zmq import wire
from grn_zmq.cloning import cloner
from grn_zmq.records import JobSpec
from grn_zmq.tails import NO_TAIL, Tail

from .book import Book
from .changes import NewTrain
from .effects import Effect, Note, Send
from .jobs import Job, State, Step
from .ledger import Lease
from .peers import Session, Worker
from .settings import Settings
from .specs import payload_digest, shared
from .trains import MOST_CREDITS, Credits, Train
from .waiting import WaitingClass

# Arguments up to this size are kept in memory, so that nobody reads them again.
SMALL_BYTES: Final = 512

_jobs_like: Final = cloner(Job, "job_id", "number", "payload", "payload_bytes", "digest")


class Boarding:
    """Accepts and places trains."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings
        self.credits = Credits()

    def accept(self, session: Session, message: wire.Calls, now: float) -> list[Effect]:
        """Take new jobs that nothing keeps from the queue; see `is_plain`."""
        book = self._book
        spec = shared(message.like)
        first = book.numbers + 1
        sizes = [len(one) for one in message.payloads]
        like = Job(spec, first, session.name, queued_at=now, stored=True)
        like.watchers = () if spec.detached else (session.name,)
        small = [one if len(one) <= SMALL_BYTES else b"" for one in message.payloads]
        digests = [
            b"" if kept or not one else payload_digest(one)
            for kept, one in zip(small, message.payloads, strict=True)
        ]
        numbers = range(first, first + len(sizes))
        jobs = _jobs_like(like, message.job_ids, numbers, small, sizes, digests)
        book.numbers = book.last_admitted = numbers[-1]
        book.jobs.update(zip(message.job_ids, jobs, strict=True))
        book.bound[session.name] += len(jobs)
        if not spec.detached:
            book.keep_session(session)
        for digest in set(like.digests):
            book.blobs.hold(digest, len(jobs))
        book.profiles.note_version(spec.job_type, spec.version)
        book.payload_bytes += sum(sizes)
        book.waiting.extend(jobs)
        book.keeping.accept(
            NewTrain(spec, first, session.name, now, message.job_ids, message.payloads)
        )
        facts = {"type": spec.job_type, "number": first, "count": len(jobs)}
        return [
            Note("accepted", {**facts, "pid": session.pid}, "debug"),
            Send(session.peer, wire.Taken(first, message.job_ids)),
        ]

    def is_plain(self, spec: JobSpec) -> bool:
        """Whether such jobs queue at once, and nobody but their client waits for them."""
        gated = spec.held or spec.begin_s or spec.after or spec.after_any
        declared = spec.queue or spec.resources or spec.token or spec.parent
        digests = [one for one in (spec.function, spec.context) if one]
        return not (gated or declared or spec.timeout_s is not None) and all(
            one in self._book.blobs for one in digests
        )

    def board(
        self, job: Job, worker: Worker, lease: Lease | None, waiting: WaitingClass, now: float
    ) -> Tail:
        """Let the next calls like one that was just placed follow it, if they are short."""
        most = self._most(job, worker, lease, waiting, now)
        if not most:
            return NO_TAIL
        assert lease is not None

        def alike(one: Job) -> bool:
            return (
                one.spec is job.spec
                and one.session == job.session
                and not one.starts
                and len(one.payload) == one.payload_bytes
            )

        riders = self._book.waiting.take_next(waiting, most, alike)
        if not riders:
            return NO_TAIL
        train = Train(job, lease.lease_bytes, {one.job_id: one for one in riders})
        job.train = train
        for one in riders:
            one.take(Step.PLACE)
            one.attempt += 1
            one.worker, one.device = job.worker, job.device
            one.predicted_bytes = job.predicted_bytes
            one.train = train
        attempts = tuple([one.attempt for one in riders])
        job_ids = tuple(train.riders)
        worker.leads.update(zip(job_ids, attempts, strict=True))
        self._book.keeping.ride(job, riders)
        return Tail(
            job_ids,
            attempts,
            tuple([one.number for one in riders]),
            tuple([one.payload for one in riders]),
        )

    def _most(
        self,
        job: Job,
        worker: Worker,
        lease: Lease | None,
        waiting: WaitingClass,
        now: float,
    ) -> int:
        """How many may follow: by time, by how it went before, and by who else has room."""
        if lease is None or lease.measuring or lease.alone or not _may_lead(job):
            return 0
        profiles, device_class = self._book.profiles, worker.ledger.facts.device_class
        duration_s = profiles.duration_s(job.key, device_class)
        if (
            duration_s is None
            or duration_s > self._settings.short_s
            or profiles.young(job.key, device_class)
        ):
            return 0
        if worker.ledger.facts.kind != "host" and job.predicted_bytes:
            return 0  # no process that has used a GPU is used again
        train_s = self._settings.train_s
        by_time = int(train_s / max(duration_s, train_s / MOST_CREDITS))
        able = sum(not one.suspect for one in self._book.workers.values())
        fair = len(waiting) // max(1, able)
        return min(by_time, fair, self.credits.of(job.key, now))


def _may_lead(job: Job) -> bool:
    """Whether nothing but its arguments tells a call from those that may follow it."""
    spec = job.spec
    special = spec.has_stand_in or spec.enforce or spec.exclusive or spec.environment
    return (
        spec.kind == "call"
        and spec.reuse
        and spec.gpus == 1
        and spec.time_limit_s is None
        and not (special or spec.parent or spec.queue or spec.resources or spec.token)
        and not job.wary
        and not job.cancelling
        and job.state is State.ASSIGNED
    )
