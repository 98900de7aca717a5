"""What workers report: who they are, what their device has, how attempts start and end."""

from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.records import AttemptId, Piece, Result

from .book import (
    Book,
    facts_of,
    not_for_you,
    outcome_of,
    outcome_without_result,
    wrong_version,
)
from .effects import Effect, Note, Peer, Send, Watch
from .jobs import Job, State, Step
from .learning import Learning
from .ledger import Ledger
from .peers import Worker
from .recovering import is_culprit, next_try, proved, report
from .settings import Settings

_STEPS: Final = {
    "succeeded": Step.RETURN,
    "failed": Step.RAISE,
    "killed": Step.DIE,
    "oom": Step.RUN_OUT,
    "cancelled": Step.CANCEL,
    "lost": Step.LOSE_WORKER,
}


class Fleet:
    """Reacts to the messages of workers."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings
        self._learning = Learning(book, settings)
        self._by_peer: dict[Peer, Worker] = {}

    def by_peer(self, peer: Peer) -> Worker | None:
        return self._by_peer.get(peer)

    def react(self, worker: Worker, message: wire.Message, now: float) -> list[Effect]:
        match message:
            case wire.Report():
                return self._on_report(worker, message, now)
            case wire.Started():
                return self._on_started(worker, message, now)
            case wire.Finished():
                return self._on_finished(worker, message, now)
            case wire.Output():
                return self._on_output(worker, message)
            case wire.Want():
                wanted = [self._book.blobs.get(digest) for digest in message.digests]
                found = tuple(blob for blob in wanted if blob is not None)
                return [Send(worker.peer, wire.Blobs(found))]
        return not_for_you(worker.peer, message, "a worker")

    def on_greet(self, peer: Peer, message: wire.Greet, now: float) -> list[Effect]:
        """A worker is here, or here again with what it still has."""
        if message.protocol != wire.PROTOCOL:
            return wrong_version(peer, message.protocol)
        worker = self._book.workers.get(message.incarnation)
        if worker is not None:
            return self._on_greet_again(worker, peer, message, now)
        if any(one.greeting.worker == message.worker for one in self._book.workers.values()):
            text = f"device {message.device.index} still has a living worker: try again"
            return [Send(peer, wire.Refused("device-taken", text, ()))]
        worker = Worker(message, peer, Ledger(message.device, message.max_jobs), now)
        self._book.workers[message.incarnation] = worker
        self._book.devices[message.worker] = message.device
        self._book.devices_changed = True
        self._by_peer[peer] = worker
        return [
            Watch(message.incarnation, message.pid),
            self._book.welcome(peer),
            *self._end_unknown(worker, message),
            Note("worker joined", {"device": worker.label, "pid": message.pid}),
        ]

    def _on_greet_again(
        self, worker: Worker, peer: Peer, message: wire.Greet, now: float
    ) -> list[Effect]:
        self._by_peer.pop(worker.peer, None)
        worker.peer = peer
        worker.last_report = now
        worker.blobs_sent.clear()
        self._by_peer[peer] = worker
        theirs = {(one.job_id, one.attempt) for one in message.inventory}
        effects: list[Effect] = [self._book.welcome(peer), *self._end_unknown(worker, message)]
        for lease in list(worker.ledger.leases.values()):
            if (lease.job_id, lease.attempt) not in theirs:
                job = self._book.jobs[lease.job_id]
                effects += self._lose_job(job, worker, "its worker no longer has it", now)
        return effects

    def _end_unknown(self, worker: Worker, message: wire.Greet) -> list[Effect]:
        """Attempts we know nothing of were given by a broker that is gone: end them."""
        unknown = [
            one
            for one in message.inventory
            if self._job_of(worker, one.job_id, one.attempt) is None
        ]
        return self._end_unleased(worker, unknown)

    def _end_unleased(self, worker: Worker, attempts: list[AttemptId]) -> list[Effect]:
        """Nobody waits for attempts without lease, not even for inline ones."""
        return self._book.end_attempts(worker, "kill", attempts)

    def lose(self, worker: Worker, now: float) -> list[Effect]:
        """The worker process is gone, and with it every process it kept."""
        effects: list[Effect] = [Note("worker died", {"device": worker.label}, "warning")]
        for job_id in list(worker.ledger.leases):
            job = self._book.jobs[job_id]
            effects += self._lose_job(job, worker, f"the worker of {worker.label} died", now)
        del self._book.workers[worker.incarnation]
        self._by_peer.pop(worker.peer, None)
        return effects

    def _lose_job(self, job: Job, worker: Worker, reason: str, now: float) -> list[Effect]:
        worker.ledger.release(job.job_id, now)
        self._book.stirred = True
        step = Step.CANCEL if job.cancelling else Step.LOSE_WORKER
        outcome = outcome_without_result(job, now, "JobLost", reason)
        return self._book.end(job, step, outcome, now)

    def tick(self, now: float) -> list[Effect]:
        """Notice who has fallen silent, and who has settled.

        A silent worker gets no new job; only its death, which the kernel tells, touches the
        jobs it has.
        """
        effects: list[Effect] = []
        for worker in self._book.workers.values():
            effects += self._learning.notice_settled(worker, now)
            silent = now - worker.last_report > self._settings.silence_s
            if silent and not worker.suspect:
                worker.suspect = True
                text = "worker silent: it gets no new jobs"
                effects.append(Note(text, {"device": worker.label}, "warning"))
        return effects

    def _on_report(self, worker: Worker, message: wire.Report, now: float) -> list[Effect]:
        # Only reports count: a worker whose device is lost goes on talking about its jobs.
        worker.last_report = now
        ledger = worker.ledger
        free_bytes, idle_bytes = ledger.free_bytes(), ledger.idle_bytes
        ledger.used_bytes = message.used_bytes
        ledger.foreign_bytes = message.foreign_bytes
        ledger.idle_bytes = message.idle_bytes
        ledger.utilisation = message.utilisation
        worker.idle_asked = worker.idle_asked and message.idle_bytes > 0
        for use in message.uses:
            lease = ledger.leases.get(use.job_id)
            if lease is not None and lease.attempt == use.attempt:
                ledger.note_use(lease, use.used_bytes, now)
                self._learning.notice_growth(lease, ledger)
        effects = self._learning.notice_settled(worker, now)
        more = ledger.free_bytes() > free_bytes or ledger.idle_bytes != idle_bytes
        if more or worker.suspect:
            self._book.stirred = ledger.opened = True
        worker.suspect = False
        return effects

    def _on_started(self, worker: Worker, message: wire.Started, now: float) -> list[Effect]:
        effects: list[Effect] = []
        unleased: list[AttemptId] = []
        for begun in message.runs:
            job = self._job_of(worker, begun.job_id, begun.attempt)
            if job is None:
                # Given up on, yet its assignment was still on the way: it has no lease.
                effects.append(Note("ended a start without lease", {"job": begun.job_id}))
                unleased.append(AttemptId(begun.job_id, begun.attempt))
                continue
            if job.state is not State.ASSIGNED:
                effects.append(Note("ignored a repeated start", {"job": begun.job_id}))
                continue
            job.take(Step.START)
            job.started_at = now
            effects.append(Note("started", facts_of(job)))
            effects += self._book.tell(job, wire.Started((begun,)))
        return [*effects, *self._end_unleased(worker, unleased)]

    def _on_output(self, worker: Worker, message: wire.Output) -> list[Effect]:
        """Give each client what the jobs it waits for printed, in one message."""
        pieces: dict[str, list[Piece]] = {}
        for piece in message.pieces:
            if job := self._job_of(worker, piece.job_id, piece.attempt):
                for name in sorted(job.watchers):
                    pieces.setdefault(name, []).append(piece)
        return [
            Send(self._book.sessions[name].peer, wire.Output(tuple(theirs)))
            for name, theirs in pieces.items()
        ]

    def _on_finished(self, worker: Worker, message: wire.Finished, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for result in message.results:
            job = self._job_of(worker, result.job_id, result.attempt)
            if job is None or message.epoch != self._book.epoch:
                # An attempt we gave up on came back. Its lease is gone, its job has ended or
                # runs elsewhere: the late result must not count.
                text = "ignored the result of an abandoned attempt"
                effects.append(Note(text, {"job": result.job_id}, "warning"))
            else:
                effects += self._finish(job, worker, result, now)
        recorded = tuple(AttemptId(one.job_id, one.attempt) for one in message.results)
        return [*effects, Send(worker.peer, wire.Recorded(self._book.epoch, recorded))]

    def _job_of(self, worker: Worker, job_id: str, attempt: int) -> Job | None:
        """The job behind a worker's message, if the worker still speaks for its attempt."""
        lease = worker.ledger.leases.get(job_id)
        if lease is None or lease.attempt != attempt:
            return None
        return self._book.jobs[job_id]

    def _finish(self, job: Job, worker: Worker, result: Result, now: float) -> list[Effect]:
        ledger = worker.ledger
        lease = ledger.leases[job.job_id]
        ran_out = result.outcome == "oom"
        culprit = ran_out and is_culprit(lease, ledger, result)
        company = ledger.release(job.job_id, now)
        proof = ran_out and proved(
            job,
            lease,
            ledger,
            self._book.devices,
            wanted_bytes=result.peak_bytes + result.asked_bytes,
        )
        self._book.stirred = True
        job.peak_bytes = max(job.peak_bytes, result.peak_bytes)
        succeeded = result.outcome == "succeeded"
        if job.state is State.ASSIGNED and (succeeded or ran_out):
            job.take(Step.START)
        effects = self._learning.observe(job, ledger, result, company, culprit=culprit)
        outcome = outcome_of(job, result, now)
        if job.cancelling:  # said so already: a value that comes now is too late
            return [*effects, *self._book.end(job, Step.CANCEL, outcome, now)]
        if succeeded and job.runs_stand_in:
            job.stand_in_done = True
            return [*effects, *self._book.requeue(job, "stand-in measured")]
        if ran_out:
            job.ooms += 1
            again = next_try(job, culprit=culprit, proof=proof)
            if again is not None:
                job.level, job.wary = again.level, again.wary
                return [*effects, *self._book.requeue(job, "out of memory: runs again")]
            largest = self._book.profiles.largest_below(job.key, ledger.facts.device_class)
            text = report(job, ledger, result, largest, proof=proof)
            outcome = replace(outcome, error_text=text)
        if succeeded:
            outcome = replace(outcome, fit=self._learning.how_many_fit(job, ledger))
        step = _STEPS.get(result.outcome, Step.RAISE)
        return [*effects, *self._book.end(job, step, outcome, now)]
