"""What clients ask for: take jobs, end them, tell how they ended, list them."""

from collections.abc import Callable
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import batches, parts, share_of_message
from grn_zmq.records import AttemptId, JobRow, Numbered, Released

from .book import Book, facts_of, not_for_you, outcome_without_result, wrong_version
from .effects import Effect, Forget, Note, Peer, Send, Watch
from .jobs import LEASED, Job, State, Step
from .peers import Session
from .scheduler import Hold
from .views import device_row, job_row, profile_row
from .waiting import ClassKey, class_of

ROWS_PER_MESSAGE: Final = 200


class Clients:
    """Reacts to the messages of client processes."""

    def __init__(self, book: Book, why: Callable[[Job, float], Hold | None]) -> None:
        self._book = book
        self._why = why
        self._by_peer: dict[Peer, Session] = {}

    def by_peer(self, peer: Peer) -> Session | None:
        return self._by_peer.get(peer)

    def react(self, session: Session, message: wire.Message, now: float) -> list[Effect]:
        match message:
            case wire.Submit():
                return self._on_submit(session, message, now)
            case wire.Blobs():
                return self._on_blobs(session, message)
            case wire.Cancel():
                return self._on_cancel(session, message, now)
            case wire.Release():
                return self._on_release(message)
            case wire.Attach():
                return self._on_attach(session, message)
            case wire.Received():
                return self._on_received(session, message)
            case wire.AskJobs():
                return self._on_ask_jobs(session, message, now)
            case wire.AskDevices():
                rows = tuple(device_row(worker) for worker in self._book.workers.values())
                return [Send(session.peer, wire.DevicesAre(rows))]
            case wire.AskProfiles():
                return self._on_ask_profiles(session, message)
            case wire.ForgetProfiles():
                return self._on_forget_profiles(session, message)
        return not_for_you(session.peer, message, "a client")

    def on_hello(self, peer: Peer, message: wire.Hello) -> list[Effect]:
        """A client is here, or here again: hand over what it has not received."""
        if message.protocol != wire.PROTOCOL:
            return wrong_version(peer, message.protocol)
        session = self._book.sessions.get(message.session)
        if session is None:
            session = Session(message.session, peer, message.pid)
            self._book.sessions[message.session] = session
        self._by_peer.pop(session.peer, None)
        session.peer = peer
        self._by_peer[peer] = session
        outcomes = [self._book.jobs[job_id].outcome for job_id in sorted(session.unreceived)]
        return [
            Watch(session.name, message.pid),
            self._book.welcome(peer),
            *(Send(peer, wire.Ended((outcome,))) for outcome in outcomes if outcome),
        ]

    def lose(self, session: Session, now: float) -> list[Effect]:
        """The client process is gone: its attached jobs go with it."""
        effects: list[Effect] = [Note("client gone", {"pid": session.pid}, "debug")]
        for job in self._book.jobs.values():
            job.watchers.discard(session.name)
        effects += self._cancel(self._bound_to(session), "terminate", now)
        self._book.blobs.forget(session.name)
        del self._book.sessions[session.name]
        self._by_peer.pop(session.peer, None)
        for worker in self._book.workers.values():
            effects.append(Send(worker.peer, wire.EndIdle(session.name)))
        return effects

    def _bound_to(self, session: Session) -> list[Job]:
        """The jobs that end with their client: a detached one if it never was complete."""
        return [
            job
            for job in self._book.jobs.values()
            if job.session == session.name and (not job.spec.detached or job.missing)
        ]

    def _on_submit(self, session: Session, message: wire.Submit, now: float) -> list[Effect]:
        accepted: list[Numbered] = []
        effects: list[Effect] = []
        missing: set[str] = set()
        for spec in message.jobs:
            job = self._book.jobs.get(spec.job_id)
            if job is not None and not job.is_of(spec):
                text = f"job id {spec.job_id} is taken by another job: make a new id"
                refusal = wire.Refused("id-conflict", text, (spec.job_id,))
                effects.append(Send(session.peer, refusal))
                continue
            if job is None:
                job = self._book.accept(session, spec, now)
                effects.append(Note("accepted", facts_of(job), "debug"))
            if job.missing:  # not safe here yet, so not accepted yet
                missing |= job.missing
            else:
                accepted.append(Numbered(job.job_id, job.number))
        if accepted:
            effects.append(Send(session.peer, wire.Accepted(tuple(accepted))))
        if missing:
            effects.append(Send(session.peer, wire.Want(tuple(sorted(missing)))))
        return effects

    def _on_blobs(self, session: Session, message: wire.Blobs) -> list[Effect]:
        complete: list[Job] = []
        for blob in message.blobs:
            self._book.blobs.put(blob, session.name)
            complete += self._book.arrived(blob.digest)
        return self._accepted(complete)

    def _accepted(self, jobs: list[Job]) -> list[Effect]:
        """Whoever sent the last blob, it is the owners who wait for the answer."""
        numbers: dict[str, list[Numbered]] = {}
        for job in jobs:
            numbers.setdefault(job.session, []).append(Numbered(job.job_id, job.number))
        return [
            Send(self._book.sessions[owner].peer, wire.Accepted(part))
            for owner, numbered in numbers.items()
            for part in parts(numbered, wire.MAX_JOBS_PER_MESSAGE)
        ]

    def _on_cancel(self, session: Session, message: wire.Cancel, now: float) -> list[Effect]:
        how = "interrupt" if message.interrupt else "terminate"
        known = [self._book.jobs[one] for one in message.job_ids if one in self._book.jobs]
        effects = self._cancel(known, how, now)
        doomed = tuple(
            job.job_id for job in known if job.cancelling or job.state is State.CANCELLED
        )
        # First the decision, then the outcomes that follow from it.
        return [Send(session.peer, wire.Cancelling(doomed)), *effects]

    def _cancel(self, jobs: list[Job], how: str, now: float) -> list[Effect]:
        """End queued jobs here and now; have each worker end all of its own together."""
        effects: list[Effect] = []
        attempts: dict[str, list[AttemptId]] = {}
        for job in jobs:
            if job.state is State.QUEUED:
                effects += self._cancel_queued(job, now)
            elif job.state in LEASED:
                job.cancelling = True
                effects.append(Note("cancelling", facts_of(job)))
                attempts.setdefault(job.worker, []).append(AttemptId(job.job_id, job.attempt))
        for incarnation, theirs in attempts.items():
            worker = self._book.workers[incarnation]
            effects += self._book.end_attempts(worker, how, theirs)
        return effects

    def _cancel_queued(self, job: Job, now: float) -> list[Effect]:
        answers: list[Effect] = []
        if job.missing:
            answers = self._accepted([job])  # its client still waits for that
        else:
            self._book.waiting.remove(job)
        outcome = outcome_without_result(job, now)
        return [*answers, *self._book.end(job, Step.CANCEL, outcome, now)]

    def _on_release(self, message: wire.Release) -> list[Effect]:
        effects: list[Effect] = []
        runs: dict[str, list[Released]] = {}
        for one in message.runs:
            job = self._book.jobs.get(one.job_id)
            if job is None or job.attempt != one.attempt or job.state not in LEASED:
                text = "ignored the release of an ended attempt"
                effects.append(Note(text, {"job": one.job_id}))
            else:
                runs.setdefault(job.worker, []).append(one)
        for incarnation, theirs in runs.items():
            worker = self._book.workers[incarnation]
            effects.append(Send(worker.peer, wire.Release(tuple(theirs))))
        return effects

    def _on_attach(self, session: Session, message: wire.Attach) -> list[Effect]:
        effects: list[Effect] = []
        for job_id in message.job_ids:
            job = self._book.jobs.get(job_id)
            if job is None or job.handed_over:
                text = f"no job {job_id}, or its result was handed over already"
                effects.append(Send(session.peer, wire.Refused("unknown-job", text, (job_id,))))
            elif job.outcome is not None:
                session.unreceived.add(job_id)
                effects.append(Send(session.peer, wire.Ended((job.outcome,))))
            else:
                job.watchers.add(session.name)
        return effects

    def _on_received(self, session: Session, message: wire.Received) -> list[Effect]:
        for job_id in message.job_ids:
            session.unreceived.discard(job_id)
            job = self._book.jobs.get(job_id)
            if job is None or job.outcome is None or job.spec.detached:
                continue
            if job.session == session.name:
                self._book.hand_over(job)
        return []

    def _on_ask_jobs(self, session: Session, message: wire.AskJobs, now: float) -> list[Effect]:
        jobs = [
            job
            for job in self._book.jobs.values()
            if job.number > message.after and (message.ended or job.live)
        ]
        holds: dict[ClassKey, Hold | None] = {}
        rows = [self._row(job, holds, now) for job in jobs[:ROWS_PER_MESSAGE]]
        sized = [(row, share_of_message(row.name, row.job_type, row.why)) for row in rows]
        page = next(batches(sized, most=ROWS_PER_MESSAGE), [])
        return [Send(session.peer, wire.JobsAre(tuple(page), more=len(jobs) > len(page)))]

    def _row(self, job: Job, holds: dict[ClassKey, Hold | None], now: float) -> JobRow:
        """Equal jobs wait for the same: `holds` remembers it between them."""
        lease = hold = None
        if job.state is State.QUEUED and not job.missing:
            alike = class_of(job)
            if alike not in holds:
                holds[alike] = self._why(job, now)
            hold = holds[alike]
        if job.state in LEASED:
            lease = self._book.workers[job.worker].ledger.leases[job.job_id]
        owner = self._book.sessions.get(job.session)
        return job_row(job, lease, hold, owner.pid if owner else 0, now)

    def _on_ask_profiles(self, session: Session, message: wire.AskProfiles) -> list[Effect]:
        # In an order that does not depend on what was seen last: pages must fit together.
        cells = sorted(self._book.profiles, key=lambda one: repr(one[0]))[message.after :]
        rows = [
            profile_row(cell_id, cell, self._book.profiles.predict(cell_id))
            for cell_id, cell in cells[:ROWS_PER_MESSAGE]
        ]
        sized = [
            (row, share_of_message(row.job_type, *map(str, row.by.values()))) for row in rows
        ]
        page = next(batches(sized, most=ROWS_PER_MESSAGE), [])
        return [Send(session.peer, wire.ProfilesAre(tuple(page), more=len(cells) > len(page)))]

    def _on_forget_profiles(
        self, session: Session, message: wire.ForgetProfiles
    ) -> list[Effect]:
        forgotten = sum(map(self._book.profiles.forget, message.job_types))
        self._book.stirred = True
        effects: list[Effect] = [Forget(job_type) for job_type in message.job_types]
        return [*effects, Send(session.peer, wire.Forgotten(forgotten))]
