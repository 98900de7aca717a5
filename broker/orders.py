"""What commands ask and order: each message goes to whoever knows about it."""

from dataclasses import replace

from grn_zmq import wire
from grn_zmq.records import Blob

from .acting import Acting
from .book import Book
from .effects import Effect, Send
from .exchanging import Exchange
from .explaining import Explaining
from .finding import find
from .jobs import Job
from .listing import Listing
from .peers import Session
from .placing import Placer
from .queueing import Queueing
from .reasons import Reasons
from .retention import Retention
from .scenery import Scenery


class Orders:
    """Reacts to the messages of `control_messages.py`."""

    def __init__(
        self,
        book: Book,
        placer: Placer,
        reasons: Reasons,
        listing: Listing,
        retention: Retention,
        queueing: Queueing,
    ) -> None:
        self._book = book
        self._queueing = queueing
        self._acting = Acting(book, retention)
        self._explaining = Explaining(book, placer, reasons)
        self._scenery = Scenery(book, listing)
        self._exchange = Exchange(book)

    def react(self, session: Session, message: wire.Order, now: float) -> list[Effect]:
        match message:
            case wire.FindJobs():
                found = tuple(find(message.refs, self._book.jobs.values()))
                return [Send(session.peer, wire.JobsFound(found))]
            case wire.AskScene():
                scene = self._scenery.scene(message.first, message.most, now)
                return [Send(session.peer, wire.SceneIs(scene), protocol=session.protocol)]
            case wire.Hold():
                return self._acting.hold(session, message, now)
            case wire.Prioritise():
                return self._acting.prioritise(session, message)
            case wire.Pause():
                return self._acting.pause(session, message)
            case wire.Clean():
                return self._acting.clean(session, message)
            case wire.AskCells():
                return self._exchange.cells(session, message)
            case wire.PutCells():
                return self._exchange.put(session, message, now)
            case wire.CreateQueue():
                return self._queueing.create(session, message, now)
            case wire.DeleteQueue():
                return self._queueing.delete(session, message, now)
            case wire.AskQueues():
                return self._queueing.show(session, message)
            case wire.AskEnvironments():
                return self._queueing.environments(session)
            case wire.AskJob() | wire.AskWhy() | wire.AskInputs():
                return self._of_job(session, message, now)

    def _of_job(
        self, session: Session, message: wire.AskJob | wire.AskWhy | wire.AskInputs, now: float
    ) -> list[Effect]:
        job = self._book.jobs.get(message.job_id)
        if job is None:
            return [_no(session, "unknown-job", f"no job {message.job_id}")]
        match message:
            case wire.AskJob():
                answer = wire.JobIs(self._scenery.row(job, now), self._scenery.detail(job, now))
                return [Send(session.peer, answer, protocol=session.protocol)]
            case wire.AskWhy():
                why = wire.WhyIs(self._explaining.reason(job, now))
                return [Send(session.peer, why, protocol=session.protocol)]
            case wire.AskInputs():
                return [self._inputs(session, job)]

    def _inputs(self, session: Session, job: Job) -> Send:
        if job.job_id not in self._book.retriable:
            why = "has not ended" if job.live else _why_not(job)
            return _no(
                session, "not-retriable", f"job {job.number} cannot be run again: it {why}"
            )
        blobs = [self._book.blobs.get(digest) for digest in job.digests]
        found: tuple[Blob, ...] = tuple(blob for blob in blobs if blob is not None)
        # Its payload is in the journal only, and is added on the way out.
        spec = replace(job.spec, job_id=job.job_id)
        inputs = wire.InputsAre(spec, found)
        return Send(session.peer, inputs, (job.job_id,), session.protocol)


def _why_not(job: Job) -> str:
    if not job.spec.detached:
        return "belonged to a program, which has to call it again"
    if job.spec.token:
        return "had large arguments, which are not kept"
    return "ended so long ago that its arguments were let go"


def _no(session: Session, reason: str, text: str) -> Send:
    return Send(session.peer, wire.Refused(reason, text, ()))
