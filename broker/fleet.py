"""What workers report: what their device has, how attempts start and end."""

from grn_zmq import wire
from grn_zmq.records import AttemptId, Piece, Use

from .arriving import Arriving
from .boarding import Boarding
from .book import Book, facts_of
from .effects import Discard, Effect, Note, Peer, Send
from .ends import outcome_without_result
from .finishing import Finishing
from .greeting import Greetings
from .jobs import Job, State, Step
from .learning import Learning
from .peers import NOBODY, Worker
from .runs import INLINE
from .settings import Settings
from .turning_away import not_for_you


class Fleet:
    """Reacts to the messages of workers."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings
        self._learning = Learning(book, settings)
        self._finishing = Finishing(book, self._learning)
        self._greetings = Greetings(book, settings, self._finishing)
        self.boarding = Boarding(book, settings)
        self._arriving = Arriving(
            book, self._learning, self._finishing, self.boarding.credits, self._greetings.answer
        )

    def by_peer(self, peer: Peer) -> Worker | None:
        return self._greetings.by_peer.get(peer)

    def on_greet(self, peer: Peer, message: wire.Greet, now: float) -> list[Effect]:
        return self._greetings.on_greet(peer, message, now)

    def lose(self, worker: Worker, now: float) -> list[Effect]:
        return self._greetings.lose(worker, now)

    def react(self, worker: Worker, message: wire.Message, now: float) -> list[Effect]:
        match message:
            case wire.Report():
                return self._on_report(worker, message, now)
            case wire.Started():
                return self._on_started(worker, message, now)
            case wire.Finished():
                return self._on_finished(worker, message, now)
            case wire.Returned():
                if message.epoch != self._book.epoch:
                    return [Note("ignored results for another broker", level="warning")]
                return self._arriving.arrive(worker, message, now)
            case wire.GivenBack():
                return self._arriving.give_back(worker, message, now)
            case wire.Output():
                return self._on_output(worker, message)
            case wire.Declined():
                return self._on_declined(worker, message, now)
            case wire.Leaving():
                worker.leaving = worker.suspect = True
                return [Note("worker leaving", {"device": worker.label})]
            case wire.Want():
                wanted = [self._book.blobs.get(digest) for digest in message.digests]
                found = tuple(blob for blob in wanted if blob is not None)
                return [Send(worker.peer, wire.Blobs(found))]
        return not_for_you(worker.peer, message, "a worker")

    def tick(self, now: float) -> list[Effect]:
        """Notice who has fallen silent, and who has settled.

        A silent worker gets no new job; only its death, which the kernel tells, touches the
        jobs it has.
        """
        effects = self._greetings.give_up_absent(now)
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
        # Whoever grows may be a parent, whose bytes do not count against those it waits for.
        shrunk = message.foreign_bytes < ledger.foreign_bytes + ledger.guest_bytes
        ledger.used_bytes = message.used_bytes
        ledger.foreign_bytes = max(0, message.foreign_bytes - ledger.guest_bytes)
        ledger.idle_bytes = message.idle_bytes
        ledger.utilisation = message.utilisation
        ledger.temperature_c = message.temperature_c
        ledger.processes = message.processes
        worker.idle_asked = worker.idle_asked and message.idle_bytes > 0
        for use in message.uses:
            shrunk |= self._note_use(worker, use, now)
        effects = self._learning.notice_settled(worker, now)
        more = ledger.free_bytes() > free_bytes or ledger.idle_bytes != idle_bytes
        if more or shrunk or worker.suspect:
            self._book.stirred = ledger.opened = True
        worker.suspect = worker.leaving
        return effects

    def _note_use(self, worker: Worker, use: Use, now: float) -> bool:
        """Take what a job uses on a device; say whether that costs the device less now."""
        there = self._book.worker_at(use.device) if use.device else worker
        lease = there.ledger.leases.get(use.job_id) if there is not None else None
        if there is None or lease is None or lease.attempt != use.attempt:
            return False
        charged_bytes = lease.charged_bytes
        there.ledger.note_use(lease, use.used_bytes, now)
        lease.pid = use.pid
        self._learning.notice_growth(lease, there.ledger)
        return lease.charged_bytes < charged_bytes

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
            job.started_at = now - begun.ran_s
            job.begun = begun
            effects.append(Note("started", facts_of(job)))
            effects += self._book.tell(job, wire.Started((begun,)))
        return [*effects, *self._book.end_attempts(worker, "kill", unleased)]

    def _on_output(self, worker: Worker, message: wire.Output) -> list[Effect]:
        """Give each client what the jobs it waits for printed, in one message."""
        pieces: dict[str, list[Piece]] = {}
        for piece in message.pieces:
            if job := self._job_of(worker, piece.job_id, piece.attempt):
                for name in sorted(job.watchers):
                    pieces.setdefault(name, []).append(piece)
        effects: list[Effect] = []
        for name, theirs in pieces.items():
            session = self._book.sessions[name]
            if session.peer != NOBODY:
                effects.append(Send(session.peer, wire.Output(tuple(theirs))))
                continue
            for piece in theirs:
                session.miss(piece)
        return effects

    def _on_finished(self, worker: Worker, message: wire.Finished, now: float) -> list[Effect]:
        if message.epoch != self._book.epoch:
            # It will greet, and repeat what it has; until then nothing of it counts.
            return [Note("ignored results for another broker", level="warning")]
        effects: list[Effect] = []
        over: list[AttemptId] = []
        for result in message.results:
            job = self._job_of(worker, result.job_id, result.attempt)
            over.append(AttemptId(result.job_id, result.attempt))
            if job is not None:
                effects += self._finishing.finish(job, worker, result, now)
                continue
            # An attempt we gave up on came back. Its lease is gone, its job has ended or runs
            # elsewhere: the late result must not count.
            text = "ignored the result of an abandoned attempt"
            effects.append(Note(text, {"job": result.job_id}, "warning"))
            if result.job_id not in self._book.jobs:
                self._book.alarms += 1
            elif result.token and not self._is_told(result.job_id, result.token):
                effects.append(Discard(result.token))
        return [*effects, *self._greetings.answer(worker, over)]

    def _is_told(self, job_id: str, token: str) -> bool:
        """Whether this parcel is the recorded value of the job: a repeated result names it."""
        outcome = self._book.jobs[job_id].outcome
        return outcome is not None and outcome.token == token

    def _on_declined(self, worker: Worker, message: wire.Declined, now: float) -> list[Effect]:
        """It could not begin these, and says so; until it reports again it gets no others."""
        if message.epoch != self._book.epoch:
            return []
        worker.suspect = True
        facts = {"device": worker.label, "why": message.why}
        effects: list[Effect] = [Note("worker declined jobs", facts, "warning")]
        for one in message.attempts:
            job = self._job_of(worker, one.job_id, one.attempt)
            if job is not None and job.state is State.ASSIGNED:
                effects += self._finishing.give_back(job, "declined: placed again", now)
            elif job is not None and job.spec.kind in INLINE:
                # Its body runs in its caller, and this worker was to go on watching it.
                why = f"the worker of {worker.label} cannot watch it: {message.why}"
                effects += self._finishing.lose(job, why, now, proved_dead=False)
        return effects

    def spoil(self, job_id: str, why: str, now: float) -> list[Effect]:
        """End a job that was placed and cannot be handed over."""
        job = self._book.jobs[job_id]
        worker = self._book.workers.get(job.worker)
        if worker is None or job.state is not State.ASSIGNED:
            return []
        riders = list(job.train.riders.values()) if job.train and not job.rides else []
        effects: list[Effect] = []
        for one in reversed(riders):  # they were to travel with it, and have not
            effects += self._finishing.give_back(one, "not handed over: placed again", now)
        job.unstarted += 1
        outcome = outcome_without_result(job, now, "JobNotStarted", why)
        return [*effects, *self._book.end(job, Step.RAISE, outcome, now)]

    def _job_of(self, worker: Worker, job_id: str, attempt: int) -> Job | None:
        """The job behind a worker's message, if the worker still speaks for its attempt."""
        return self._book.jobs[job_id] if worker.leads.get(job_id) == attempt else None
