"""What people do with queues: make them, delete them, look at them; and with environments."""

from grn_zmq import wire
from grn_zmq.amounts import parse_amount
from grn_zmq.facts import EnvironmentRow
from grn_zmq.records import JobSpec

from .book import Book
from .cancelling import Cancelling
from .effects import Effect, Note, Send
from .jobs import LEASED, State
from .needs import GPU
from .peers import Session
from .queues import OWN, Queue, row_of
from .settings import Settings

# Why a job is not taken: the reason, and a text that says it.
Refusal = tuple[str, str]


class Queueing:
    """Carries out orders about queues."""

    def __init__(self, book: Book, settings: Settings, cancelling: Cancelling) -> None:
        self._book = book
        self._settings = settings
        self._cancelling = cancelling

    def create(self, session: Session, message: wire.CreateQueue, now: float) -> list[Effect]:
        known = self._book.queues.get(message.name)
        if known is not None and known.request != message.request:
            state = (
                "is being deleted, some of its jobs still run" if known.closing else "exists"
            )
            text = f"queue {message.name} {state}: choose another name, or see `grn show`"
            return [_no(session, "queue-exists", text)]
        if known is None:
            if why := self._unfit(message, now):
                return [_no(session, "bad-capacity", why)]
            known = Queue(
                message.name,
                message.capacity,
                message.prefix,
                message.max_jobs,
                message.request,
            )
            self._book.queues.create(known)
        row = row_of(known, self._book.jobs.values())
        return [
            Note("made a queue", {"queue": message.name}),
            Send(session.peer, wire.QueuesAre((row,))),
        ]

    def _unfit(self, message: wire.CreateQueue, now: float) -> str:
        """Why a queue cannot have these capacities; nothing if it can."""
        if message.name.isdigit():
            return f"a queue called {message.name} would hide the job of that number"
        if message.max_jobs == 0:
            return "with --max-jobs 0 nothing could ever run"
        managed = {str(facts.index) for facts in self._book.devices.values()}
        # Workers that are about to join may bring more.
        gathering = now - self._book.gathered_at < self._settings.gather_s
        for name, amount in message.capacity.get(GPU, {}).items():
            if parse_amount(amount) > 1:
                return (
                    f"gpu {name} of {amount}: a device is one, a queue has at most 1 of each; "
                    f"four devices are written {{gpu:4}}"
                )
            if name not in managed and not gathering:
                there = ", ".join(sorted(managed, key=lambda one: (len(one), one)))
                return f"there is no device {name}: managed are {there or 'none'}"
        return ""

    def delete(self, session: Session, message: wire.DeleteQueue, now: float) -> list[Effect]:
        queue = self._book.queues.get(message.name)
        if queue is None or queue.name == OWN:
            return [_no(session, "unknown-queue", unknown(self._book, message.name))]
        jobs = [one for one in self._book.jobs.values() if one.spec.queue == queue.name]
        ending = [job for job in jobs if job.state is State.QUEUED]
        running = [job for job in jobs if job.state in LEASED]
        why = f"queue {queue.name} was deleted"
        self._book.queues.close(queue)  # first, so that nobody enters it any more
        effects = self._cancelling.cancel(ending, "terminate", now, why)
        if message.end_running:
            effects += self._cancelling.cancel(running, "terminate", now)
            ending += running
        done = tuple(job.job_id for job in ending)
        return [
            Note("deleted a queue", {"queue": queue.name, "cancelled": len(done)}),
            Send(session.peer, wire.Acted(done, ())),
            *effects,
        ]

    def show(self, session: Session, message: wire.AskQueues) -> list[Effect]:
        queues = list(self._book.queues)
        if message.name:
            queues = [one for one in queues if one.name == message.name]
            if not queues:
                return [_no(session, "unknown-queue", unknown(self._book, message.name))]
        rows = tuple(row_of(one, self._book.jobs.values()) for one in queues)
        return [Send(session.peer, wire.QueuesAre(rows))]

    def environments(self, session: Session) -> list[Effect]:
        found: dict[tuple[str, str, str], list[str]] = {}
        for worker in sorted(self._book.workers.values(), key=lambda one: one.label):
            for one in worker.greeting.environments:
                found.setdefault((one.name, one.kind, one.text), []).append(worker.label)
        rows = tuple(EnvironmentRow(*key, tuple(on)) for key, on in sorted(found.items()))
        return [Send(session.peer, wire.EnvironmentsAre(rows))]


def refusal(book: Book, spec: JobSpec) -> Refusal | None:
    """Why a job cannot be queued for what it declares; None if it can."""
    queue = book.queues.get(spec.queue)
    if queue is None:
        return "unknown-queue", unknown(book, spec.queue)
    if queue.closing:
        return "queue-closed", f"queue {queue.name} was deleted and takes no more jobs"
    if queue.prefix and spec.kind != "command":
        words = " ".join(queue.prefix)
        return "impossible", f"queue {queue.name} runs only commands that begin with {words}"
    needs = queue.needs(spec)
    if needs and (why := queue.pools.impossible(needs)):
        where = f"queue {queue.name}" if queue.name else "the broker"
        return "impossible", f"{where} can never run it: {why}"
    return None


def unknown(book: Book, name: str) -> str:
    names = ", ".join(one.name for one in book.queues if one.name) or "none"
    return f"there is no queue {name}: there are {names}. `grn create-queue --help` makes one"


def _no(session: Session, reason: str, text: str) -> Send:
    return Send(session.peer, wire.Refused(reason, text, ()))
