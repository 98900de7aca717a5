"""What clients ask for: take jobs, end them, tell how they ended, list them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import Numbered, Released

from . import handing
from .admission import Admission
from .boarding import Boarding
from .book import Book, facts_of
from .cancelling import Cancelling
from .changes import Death
from .effects import DiscardOf, Effect, Note, Peer, Send, Unwatch, Watch
from .jobs import LEASED, Job, State
from .listing import Listing
from .peers import NOBODY, Session
from .retention import Retention
from .settings import Settings
from .turning_away import not_for_you, wrong_version

# Of what a client has missed, in one message.
_PIECES: Final = 64


class Clients:
    """Reacts to the messages of client processes."""

    def __init__(
        self,
        book: Book,
        settings: Settings,
        cancelling: Cancelling,
        listing: Listing,
        boarding: Boarding,
        retention: Retention,
    ) -> None:
        self._book = book
        self._settings = settings
        self._cancelling = cancelling
        self._listing = listing
        self._retention = retention
        self.admission = Admission(book, settings)
        self._boarding = boarding
        self._by_peer: dict[Peer, Session] = {}

    def by_peer(self, peer: Peer) -> Session | None:
        return self._by_peer.get(peer)

    def react(self, session: Session, message: wire.Message, now: float) -> list[Effect]:
        match message:
            case wire.Submit():
                return self._on_submit(session, message, now)
            case wire.Calls():
                return self._on_calls(session, message, now)
            case wire.Blobs():
                return self._on_blobs(session, message)
            case wire.Cancel():
                return self._on_cancel(session, message, now)
            case wire.Release():
                return self._on_release(message)
            case wire.Attach():
                return self._on_attach(session, message)
            case wire.Received():
                return self._on_received(session, message, now)
            case wire.AskJobs():
                return self._listing.jobs(session, message, now)
            case wire.AskDevices():
                return self._listing.devices(session)
            case wire.AskProfiles():
                return self._listing.profiles(session, message)
            case wire.ForgetProfiles():
                return self._on_forget_profiles(session, message, now)
        return not_for_you(session.peer, message, "a client")

    def on_hello(self, peer: Peer, message: wire.Hello) -> list[Effect]:
        """A client is here, or here again: hand over what it has not received."""
        if message.protocol not in (wire.PROTOCOL, wire.PROTOCOL_BEFORE):
            return wrong_version(peer, message.protocol)
        session = self._book.sessions.get(message.session)
        if session is None:
            if len(self._by_peer) >= self._settings.most_clients:
                return [self._no_more(peer)]
            session = Session(message.session, peer, message.pid)
            self._book.sessions[message.session] = session
        self._by_peer.pop(session.peer, None)
        session.peer, session.pid, session.protocol = peer, message.pid, message.protocol
        session.away_at = None
        self._by_peer[peer] = session
        handing.begin_again(session)
        missed, session.missed = tuple(session.missed), []
        return [
            Watch(session.name, message.pid),
            self._book.welcome(peer, protocol=message.protocol),
            *self._running_of(session),
            *(Send(peer, wire.Output(part)) for part in parts(missed, _PIECES)),
            *handing.pump(session, self._book.jobs),
        ]

    def _no_more(self, peer: Peer) -> Effect:
        text = (
            f"{len(self._by_peer):,} programs are connected to the broker, as many as may be: "
            f"let some end, or let one program submit for several"
        )
        return Send(peer, wire.Refused("too-many-clients", text, ()))

    def _running_of(self, session: Session) -> list[Effect]:
        """Tell again which of its jobs have begun: it may have missed that."""
        if not self._book.bound[session.name]:
            return []
        begun = [
            job.begun
            for worker in self._book.workers.values()
            for job in map(self._book.jobs.__getitem__, worker.leads)
            if job.begun is not None and session.name in job.watchers
        ]
        return [
            Send(session.peer, wire.Started(part), protocol=session.protocol)
            for part in parts(begun, wire.MAX_JOBS_PER_MESSAGE)
        ]

    def disconnected(self, peer: Peer, now: float) -> None:
        """Its connection is gone, perhaps for a moment; its process is another matter."""
        session = self._by_peer.pop(peer, None)
        if session is not None:
            session.peer = NOBODY
            session.away_at = now
            handing.begin_again(session)

    def absent(self, now: float) -> list[str]:
        """The clients that have been away for too long, though their processes live."""
        return [
            one.name
            for one in self._book.sessions.values()
            if one.away_at is not None and now - one.away_at >= self._settings.away_s
        ]

    def excuse(self, name: str, now: float) -> None:
        """It only stands still: count its absence anew."""
        self._book.sessions[name].away_at = now

    def lose(self, session: Session, now: float) -> list[Effect]:
        """The client process is gone: its attached jobs go with it."""
        effects: list[Effect] = [Note("client gone", {"pid": session.pid}, "debug")]
        mine = self._jobs_of(session) if self._book.bound[session.name] else []
        for job in mine:
            self._book.unwatch(job, session.name)
        ending = [
            job
            for job in mine
            # A detached one if it never was complete.
            if job.session == session.name and (not job.spec.detached or job.missing)
        ]
        effects += self._cancelling.cancel(ending, "terminate", now)
        for job_id in session.unreceived:
            if not self._book.jobs[job_id].spec.detached:
                self._book.fading.add(self._book.jobs[job_id], now)
        self._book.blobs.forget(session.name)
        if not any(job.live and job.session == session.name for job in mine):
            # Else a result of one that goes on may be on its way: the next start sweeps.
            needed = frozenset(self._needed(session.name)) - {""}
            effects.append(DiscardOf(session.name, needed))
        effects.append(Unwatch(session.name))
        if session.stored:
            self._book.changes.lose_session(session.name)
        del self._book.sessions[session.name]
        self._by_peer.pop(session.peer, None)
        for worker in self._book.workers.values():
            effects.append(Send(worker.peer, wire.EndIdle(session.name)))
        return effects

    def _needed(self, name: str) -> Iterator[str]:
        """The parcels that this client's jobs have left, and somebody may still want."""
        wanted = {one for other in self._book.sessions.values() for one in other.unreceived}
        for job in map(self._book.jobs.__getitem__, self._book.ended):
            kept = job.spec.detached or job.job_id in wanted
            if kept and job.session == name and job.outcome is not None:
                yield job.outcome.token

    def _jobs_of(self, session: Session) -> list[Job]:
        return [
            job
            for job in self._book.jobs.values()
            if job.live and (job.session == session.name or session.name in job.watchers)
        ]

    def _on_submit(self, session: Session, message: wire.Submit, now: float) -> list[Effect]:
        accepted: list[Numbered] = []
        effects: list[Effect] = []
        missing: set[str] = set()
        for spec in message.jobs:
            job = self._book.jobs.get(spec.job_id)
            refusal = None
            if job is not None and not job.is_of(spec):
                text = f"job id {spec.job_id} is taken by another job: make a new id"
                refusal = wire.Refused("id-conflict", text, (spec.job_id,))
            elif job is None:
                refusal = self.admission.refuse(spec, now)
            if refusal is not None:
                effects.append(Send(session.peer, refusal))
                continue
            if job is None:
                job = self._book.accept(session, spec, now)
                facts = {**facts_of(job), "pid": session.pid}
                effects.append(Note("accepted", facts, "debug"))
            elif job.session == session.name and not job.spec.detached:
                effects += self._wait_for(session, job)  # it was away, and given up
            if job.missing:  # not safe here yet, so not accepted yet
                missing |= job.missing
            else:
                accepted.append(Numbered(job.job_id, job.number))
        if accepted:
            effects.append(Send(session.peer, wire.Accepted(tuple(accepted))))
        if missing:
            effects.append(Send(session.peer, wire.Want(tuple(sorted(missing)))))
        return effects

    def _on_calls(self, session: Session, message: wire.Calls, now: float) -> list[Effect]:
        """Take them together if they are all new and nothing is special about them."""
        spec, jobs = message.like, self._book.jobs
        new = jobs.keys().isdisjoint(message.job_ids)
        distinct = len(set(message.job_ids)) == len(message.job_ids)
        plain = new and distinct and bool(message.job_ids) and self._boarding.is_plain(spec)
        if plain and self.admission.refuse_all(message, now) is None:
            return self._boarding.accept(session, message, now)
        specs = [
            replace(spec, job_id=job_id, payload=payload)
            for job_id, payload in zip(message.job_ids, message.payloads, strict=True)
        ]
        return self._on_submit(session, wire.Submit(tuple(specs)), now)

    def _on_blobs(self, session: Session, message: wire.Blobs) -> list[Effect]:
        complete: list[Job] = []
        for blob in message.blobs:
            self._book.blobs.put(blob, session.name)
            complete += self._book.arrived(blob.digest)
        return self._cancelling.accepted(complete)

    def _on_cancel(self, session: Session, message: wire.Cancel, now: float) -> list[Effect]:
        how = "interrupt" if message.interrupt else "terminate"
        known = [self._book.jobs[one] for one in message.job_ids if one in self._book.jobs]
        effects = self._cancelling.cancel(known, how, now)
        doomed = tuple(
            job.job_id for job in known if job.cancelling or job.state is State.CANCELLED
        )
        # First the decision, then the outcomes that follow from it.
        return [Send(session.peer, wire.Cancelling(doomed)), *effects]

    def _on_release(self, message: wire.Release) -> list[Effect]:
        effects: list[Effect] = []
        runs: dict[str, list[Released]] = {}
        for one in message.runs:
            job = self._book.jobs.get(one.job_id)
            if job is None or job.attempt != one.attempt or job.state not in LEASED:
                text = "ignored the release of an ended attempt"
                effects.append(Note(text, {"job": one.job_id}))
            elif one.job_id in self._book.adrift:
                self._book.adrift.note_release(one)
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
            if job is None:
                text = f"no job {job_id}"
                effects.append(Send(session.peer, wire.Refused("unknown-job", text, (job_id,))))
            else:
                effects += self._wait_for(session, job)
        return effects

    def _wait_for(self, session: Session, job: Job) -> list[Effect]:
        """Tell this client how the job ended, or when it does."""
        if job.outcome is not None:
            return handing.enqueue(job, session, self._book.jobs)
        told = session.name in job.watchers
        self._book.watch(job, session)
        if told or job.begun is None:
            return []
        started = wire.Started((job.begun,))
        return [Send(session.peer, started, protocol=session.protocol)]

    def _on_received(
        self, session: Session, message: wire.Received, now: float
    ) -> list[Effect]:
        effects: list[Effect] = []
        for job_id in message.job_ids:
            handing.take_receipt(session, job_id)
            job = self._book.jobs.get(job_id)
            if job is None or job.outcome is None or job.spec.detached or job.received:
                continue
            if job.session == session.name or job.session not in self._book.sessions:
                job.received = True
                effects += self._let_fade(job, now)
        return [*effects, *handing.pump(session, self._book.jobs)]

    def _let_fade(self, job: Job, now: float) -> list[Effect]:
        """Its caller has the value; if that is large, nobody's memory is kept for it."""
        if job.outcome is not None and job.outcome.token:
            others = self._book.sessions.values()
            if not any(
                job.job_id in one.unsent or job.job_id in one.in_flight for one in others
            ):
                return self._retention.let_go_of_result(job)
        self._book.fading.add(job, now)
        return []

    def _on_forget_profiles(
        self, session: Session, message: wire.ForgetProfiles, now: float
    ) -> list[Effect]:
        forgotten = sum(map(self._book.profiles.forget, message.job_types))
        self._book.stirred = True
        for job_type in message.job_types:
            self._book.changes.forget_type(job_type)
            if self._book.poison.blamed(job_type):
                cleared = Death(job_type, 0.0, now)
                self._book.poison.blame(cleared)
                self._book.changes.batch.deaths.append(cleared)
        return [Send(session.peer, wire.Forgotten(forgotten))]
