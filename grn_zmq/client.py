"""The client of this process: submits jobs, keeps their futures, hands out what comes back."""

import atexit
import os
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from . import wire
from .batches import parts
from .connection import Connection
from .errors import BrokerUnavailable, GrnError, JobLost, RequestRefused, UnknownJob
from .futures import Future
from .outcomes import open_outcome, warn_about
from .paths import find_places
from .receipts import Reporter
from .records import Begun, Blob, JobSpec, Outcome, Released
from .terminal import OutputWriter

ANSWER_S: Final = 60.0
# Closures over data are new blobs with every call; forgetting only costs sending again.
MOST_BLOBS_KNOWN: Final = 10_000
# What one message may name; see the limit of lists in `codec.py`.
IDS_PER_MESSAGE: Final = 1000

M = TypeVar("M", bound=wire.Message)


@dataclass(slots=True)
class Pending:
    """A job this process still has to hear about."""

    spec: JobSpec | None
    future: Future[Any]
    session: str
    blobs: tuple[Blob, ...] = ()
    accepted: threading.Event = field(default_factory=threading.Event)
    cancel_taken: threading.Event = field(default_factory=threading.Event)
    begun: "queue.SimpleQueue[Begun | None] | None" = None
    last_begun: Begun | None = None
    abandoned: bool = False

    @property
    def attached(self) -> bool:
        return self.spec is not None and not self.spec.detached


class Client:
    """All jobs of this process, over one connection. Safe to use from any thread."""

    def __init__(self) -> None:
        self.session = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._pending: dict[str, Pending] = {}
        self._sent_blobs: set[str] = set()
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[wire.Message | BaseException] = queue.SimpleQueue()
        self._output = OutputWriter()
        self._reporter = Reporter(self._output, os.environ.get("GRN_REPORT", ""))
        # What executors still hold back is not pending here: they are asked at the end.
        self.drains: set[Callable[[], None]] = set()
        self.giving_up = False
        atexit.register(self._at_exit)

    def connect(self) -> Connection:
        """Give the living connection, or make one.

        Raises:
            BrokerUnavailable: There is no broker.
        """
        with self._lock:
            if self._connection is None or not self._connection.alive:
                self._sent_blobs.clear()
                # A new session: whatever the old broker knew of us is gone with it.
                self.session = uuid.uuid4().hex
                on_lost = partial(self._on_lost, self.session)
                self._connection = Connection(
                    find_places(os.environ), self.session, self._on_message, on_lost
                )
            return self._connection

    def submit(
        self,
        spec: JobSpec,
        blobs: tuple[Blob, ...],
        future: Future[Any] | None = None,
        *,
        inline: bool = False,
    ) -> Pending:
        """Hand a job over; its future tells the rest."""
        future = future or Future(spec.job_id, self)
        with self._lock:  # from before the look at the connection: it may die any moment
            connection = self.connect()
            pending = Pending(spec, future, self.session, blobs)
            if inline:
                pending.begun = queue.SimpleQueue()
            self._pending[spec.job_id] = pending
            if len(self._sent_blobs) > MOST_BLOBS_KNOWN:
                self._sent_blobs.clear()
            for blob in blobs:
                if blob.digest not in self._sent_blobs:
                    self._sent_blobs.add(blob.digest)
                    connection.send(wire.Blobs((blob,)))
            connection.send(spec)
        return pending

    def check_can_wait(self) -> None:
        """Refuse to wait in the thread that would have to receive the answer."""
        connection = self._connection
        if connection is not None and connection.is_this_thread:
            raise RuntimeError(
                "a callback of a future cannot wait for a job: it runs in the thread that "
                "receives results. Use submit() there, or hand the work to another thread"
            )

    def wait_accepted(self, pending: Pending) -> None:
        """Wait until the broker has the job safe, then leave it alone."""
        self.check_can_wait()
        pending.accepted.wait()
        with self._lock:
            self._pending.pop(pending.future.job_id, None)
        if pending.future.done():
            pending.future.result()  # refused: raises why

    def attach(self, job_id: str) -> Future[Any]:
        """Wait for a job that somebody submitted."""
        with self._lock:
            connection = self.connect()
            if job_id in self._pending:
                return self._pending[job_id].future
            pending = Pending(None, Future(job_id, self), self.session)
            self._pending[job_id] = pending
            connection.send(wire.Attach((job_id,)))
        return pending.future

    def cancel(self, *job_ids: str, interrupt: bool = False) -> bool:
        """Ask for the end of these jobs; True if all of them will have been cancelled."""
        found = self.ask_to_cancel(*job_ids, interrupt=interrupt)
        connection = self._connection
        if connection is not None and connection.is_this_thread:
            # In a callback of a future: the answer can only come once we have returned.
            return len(found) == len(job_ids)
        deadline = time.monotonic() + ANSWER_S
        taken = [one.cancel_taken.wait(deadline - time.monotonic()) for one in found]
        return len(found) == len(job_ids) and all(taken) and all(map(_will_be_cancelled, found))

    def ask_to_cancel(self, *job_ids: str, interrupt: bool = False) -> list[Pending]:
        """Ask for the end of these jobs without waiting for any answer; give those known."""
        with self._lock:
            if self._connection is None or not self._connection.alive:
                return []
            for part in parts(job_ids, IDS_PER_MESSAGE):
                self._connection.send(wire.Cancel(part, interrupt))
            return [self._pending[one] for one in job_ids if one in self._pending]

    def abandon(self, pending: Pending) -> None:
        """Nobody waits for this inline job any more: give its lease back whenever it comes."""
        with self._lock:
            pending.abandoned = True
            begun = pending.last_begun
        self.ask_to_cancel(pending.future.job_id)
        if begun is not None:
            self.release(begun.job_id, begun.attempt, failed=True)

    def release(self, job_id: str, attempt: int, *, failed: bool) -> None:
        """The body of an inline job has ended."""
        with self._lock:
            if self._connection is not None and self._connection.alive:
                self._connection.send(wire.Release((Released(job_id, attempt, failed),)))

    def ask(self, question: wire.Message, answer: type[M]) -> M:
        """Ask the broker for facts."""
        with self._asking:
            while not self._answers.empty():
                self._answers.get()  # to a question that was given up
            self.connect().send(question)
            try:
                reply = self._answers.get(timeout=ANSWER_S)
            except queue.Empty:
                raise BrokerUnavailable(
                    f"the broker has not answered for {ANSWER_S:.0f} s"
                ) from None
        if isinstance(reply, BaseException):
            raise reply
        assert isinstance(reply, answer)
        return reply

    def close(self) -> None:
        """Leave. Unfinished jobs are given up here; they end when this process does."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._reporter.close()
            self._on_lost(self.session, BrokerUnavailable("this process has left its broker"))

    def _on_message(self, message: wire.Message) -> None:
        """Called in the connection's thread, in the order the broker sent."""
        match message:
            case wire.Accepted():
                for one in message.jobs:
                    if pending := self._pending.get(one.job_id):
                        pending.accepted.set()
            case wire.Want():
                self._on_want(message)
            case wire.Started():
                for begun in message.runs:
                    self._on_begun(begun)
            case wire.Output():
                for piece in message.pieces:
                    self._output.write(piece.job_id, piece.stream, piece.data)
            case wire.Cancelling():
                for job_id in message.job_ids:
                    if pending := self._pending.get(job_id):
                        pending.cancel_taken.set()
            case wire.Ended():
                for outcome in message.outcomes:
                    self._on_ended(outcome)
            case wire.Refused():
                self._on_refused(message)
            case wire.JobsAre() | wire.DevicesAre() | wire.ProfilesAre() | wire.Forgotten():
                self._answers.put(message)

    def _on_want(self, message: wire.Want) -> None:
        with self._lock:
            kept = {b.digest: b for one in self._pending.values() for b in one.blobs}
            wanted = tuple(kept[digest] for digest in message.digests if digest in kept)
            if self._connection is not None:
                for blob in wanted:
                    self._connection.send(wire.Blobs((blob,)))

    def _on_begun(self, begun: Begun) -> None:
        if pending := self._pending.get(begun.job_id):
            pending.future.began()
            with self._lock:
                pending.last_begun = begun
                abandoned = pending.abandoned
            if abandoned:
                self.release(begun.job_id, begun.attempt, failed=True)
            elif pending.begun is not None:
                pending.begun.put(begun)

    def _on_ended(self, outcome: Outcome) -> None:
        with self._lock:
            pending = self._pending.pop(outcome.job_id, None)
            if self._connection is not None:
                self._connection.send(wire.Received((outcome.job_id,)))
        self._output.forget(outcome.job_id)
        if pending is None:
            return
        future = pending.future
        future.outcome = outcome
        if outcome.outcome == "cancelled":
            future.settle_cancelled()
        else:
            value, error = open_outcome(outcome, pending.spec)
            self._reporter.job_ended(outcome, pending.spec)  # before what its caller prints
            future.settle(outcome, value, error)
            warn_about(outcome, pending.spec)
        self._let_go(pending)

    def _on_refused(self, message: wire.Refused) -> None:
        if message.reason == "internal" and not message.job_ids and self._asking.locked():
            self._answers.put(RequestRefused(message.reason, message.text))
        for job_id in message.job_ids:
            with self._lock:
                pending = self._pending.pop(job_id, None)
            if pending is None:
                continue
            unknown = message.reason == "unknown-job"
            pending.future.fail(
                UnknownJob(job_id) if unknown else RequestRefused(message.reason, message.text)
            )
            self._let_go(pending)

    def _on_lost(self, session: str, error: BaseException) -> None:
        """A connection is gone, and with it the jobs of its session; a new one may be here."""
        with self._lock:
            lost = [one for one in self._pending.values() if one.session == session]
            for pending in lost:
                del self._pending[pending.future.job_id]
        for pending in lost:
            job_id = pending.future.job_id
            pending.future.fail(
                JobLost(job_id, "its broker died")
                if pending.accepted.is_set() or pending.spec is None
                else _as_unavailable(error)
            )
            self._let_go(pending)
        if self._asking.locked():
            self._answers.put(_as_unavailable(error))

    @staticmethod
    def _let_go(pending: Pending) -> None:
        """Wake everyone who waits for a step of a job that has ended."""
        pending.accepted.set()
        pending.cancel_taken.set()
        if pending.begun is not None:
            pending.begun.put(None)

    def _at_exit(self) -> None:
        """Wait for attached jobs at a normal end, as executors do; cancel after a failure."""
        failing = getattr(sys, "last_value", None) is not None
        try:
            for drain in () if failing else list(self.drains):
                drain()
            for pending in () if failing else self._attached():
                pending.future.exception()
        except BaseException:
            failing = True
        if failing:
            self.giving_up = True  # before jobs end: executors would start the next ones
            self.ask_to_cancel(*(one.future.job_id for one in self._attached()))
        self.close()

    def _attached(self) -> list[Pending]:
        with self._lock:
            return [one for one in self._pending.values() if one.attached]


def _will_be_cancelled(pending: Pending) -> bool:
    return not pending.future.done() or pending.future.cancelled()


def _as_unavailable(error: BaseException) -> BaseException:
    return (
        error if isinstance(error, GrnError) else BrokerUnavailable(f"the broker died: {error}")
    )


_client: Client | None = None
_making = threading.Lock()
_of_parents: list[Client] = []


def this_client() -> Client:
    """Give the one client of this process."""
    global _client
    with _making:
        if _client is None:
            _client = Client()
        return _client


def _after_fork() -> None:
    """A child must not touch its parent's socket or wait for its thread: it starts anew."""
    global _client, _making
    _making = threading.Lock()
    if _client is not None:
        atexit.unregister(_client._at_exit)
        _of_parents.append(_client)  # kept, so that its sockets are not closed twice
        _client = None


os.register_at_fork(after_in_child=_after_fork)
