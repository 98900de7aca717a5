"""The client of this process: submits jobs, keeps their futures, hands out what comes back.

It outlives its broker. What it wants is kept here until the broker has answered, so that the
next broker, or the same one after a cut, can be told again.
"""

import atexit
import os
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from . import wire
from .asking import ANSWER_S, Questions
from .batches import IDS_PER_MESSAGE, parts
from .config import report_setting
from .connection import WAIT_S, Connection
from .errors import BrokerUnavailable
from .futures import Future
from .hearing import Hearing
from .lifelock import hold_life
from .openers import Openers, Task
from .outage import QUIET_S, warn
from .parcels import find_parcels
from .paths import find_places
from .pending import Pending
from .receipts import Reporter
from .records import Blob, JobSpec, Released
from .sending import Sending
from .shelf import clear_shelves
from .terminal import OutputWriter

M = TypeVar("M", bound=wire.Message)
T = TypeVar("T")


class Client:
    """All jobs of this process, over one connection. Safe to use from any thread."""

    # How long a broker may be gone before those who wait for it are told.
    patience_s = WAIT_S

    def __init__(self) -> None:
        self.session = uuid.uuid4().hex
        self.lock = threading.RLock()
        self.pending: dict[str, Pending] = {}
        self.sending = Sending(self.lock, lambda: self._connection)
        self.questions = Questions()
        self.openers = Openers()
        self.output = OutputWriter()
        self.reporter = Reporter(self.output, report_setting(os.environ))
        self._connecting = threading.RLock()
        self._connection: Connection | None = None
        self._lost_at: float | None = None
        self._hearing = Hearing(self)
        self._parcel_lock = -1
        # What executors still hold back is not pending here: they are asked at the end.
        self.drains: set[Callable[[], None]] = set()
        self.giving_up = False
        atexit.register(self._at_exit)

    def connect(self) -> None:
        """Make sure that there is a connection; the first one waits for its broker.

        Raises:
            BrokerUnavailable: There is no broker.
        """
        connection = self._connection
        if connection is not None and connection.greeted:
            return
        with self._connecting:
            connection = self._connection
            if connection is None:
                connection = self._new_connection()
            try:
                connection.wait_greeted()
            except BaseException as error:
                connection.abandon()
                with self.lock:
                    if self._connection is connection:
                        self._connection = None
                if isinstance(error, BrokerUnavailable):
                    # How our thread came to know it is of no use to who has to start one.
                    raise error.with_traceback(None) from None
                raise

    def _new_connection(self) -> Connection:
        with self.lock:
            lost_at = self._lost_at
            if lost_at is not None and time.monotonic() - lost_at > self.patience_s:
                lost_at = None
            self._connection = connection = Connection(
                partial(find_places, dict(os.environ)),
                self.session,
                self._hearing,
                wait_s=self.patience_s,
                lost_at=lost_at,
            )
        connection.start()
        return connection

    def send(self, *messages: wire.Message) -> None:
        """Hand messages over; without a broker they are dropped, and said again in time."""
        self.sending.send(*messages)

    def hurry(self) -> None:
        """Somebody waits: what was submitted is not to wait for more of its like."""
        connection = self._connection
        if connection is not None and self.sending.window.ready:
            connection.hurry()

    def submit(
        self,
        spec: JobSpec,
        blobs: tuple[Blob, ...],
        future: Future[Any] | None = None,
        *,
        inline: bool = False,
    ) -> Pending:
        """Hand a job over; its future tells the rest."""
        pending = Pending(spec, future or Future(spec.job_id, self), blobs)
        if inline:
            pending.begun = queue.SimpleQueue()
            hold_life(find_places(os.environ).life(self.session))
        self.submit_all([pending])
        self.hurry()
        return pending

    def submit_all(self, jobs: Sequence[Pending]) -> None:
        """Hand jobs over together, in few messages."""
        try:
            self._while_connected(lambda: self._note_jobs(jobs))
        except Exception:
            raise
        except BaseException:  # Ctrl-C between two lines: nobody would wait for these jobs
            self.ask_to_cancel(*(one.job_id for one in jobs))
            raise

    def _note_jobs(self, jobs: Sequence[Pending]) -> None:
        window = self.sending.window
        for pending in jobs:
            self.pending[pending.job_id] = pending
            window.add(pending)

    def _while_connected(self, note: Callable[[], T]) -> T:
        """Take note of a wish while there is a connection that will tell or repeat it."""
        while True:
            with self.lock:
                connection = self._connection
                if connection is not None and connection.greeted:
                    noted = note()
                    if self.sending.window.ready:
                        connection.nudge()
                    return noted
            self.connect()

    def lost(self, lost_at: float | None) -> None:
        """There is no connection any more; the next may wait for a broker if one was lost."""
        with self.lock:
            self._connection = None
            self._lost_at = lost_at

    def check_can_wait(self) -> None:
        """Refuse to wait in the thread that would have to open the answer."""
        if self._is_own_thread():
            raise RuntimeError(
                "a callback of a future cannot wait for a job: it runs in the thread that "
                "opens results. Use submit() there, or hand the work to another thread"
            )

    def _is_own_thread(self) -> bool:
        connection = self._connection
        return self.openers.is_this_thread or (
            connection is not None and connection.is_this_thread
        )

    def wait_accepted(self, pending: Pending) -> None:
        """Wait until the broker has the job safe, then leave it alone."""
        self.check_can_wait()
        if not pending.is_accepted:
            self.hurry()
            pending.accepted.wait()
        with self.lock:
            self.pending.pop(pending.job_id, None)
        if pending.future.done():
            pending.future.result()  # refused: raises why

    def attach(self, job_id: str) -> Future[Any]:
        """Wait for a job that somebody submitted."""
        pending = Pending(None, Future(job_id, self))
        pending.accept()
        pending.heard(time.monotonic())
        return self._while_connected(lambda: self._note_attached(pending)).future

    def _note_attached(self, pending: Pending) -> Pending:
        job_id = pending.job_id
        known = self.pending.setdefault(job_id, pending)
        if known is pending:
            if self._hearing.endings.owes(job_id):  # else it would seem to be on its way
                self.send(wire.Received((job_id,)))
            self.send(wire.Attach((job_id,)))
        return known

    def cancel(self, *job_ids: str, interrupt: bool = False) -> bool:
        """Ask for the end of these jobs; True if all of them will have been cancelled."""
        found = self.ask_to_cancel(*job_ids, interrupt=interrupt)
        if self._is_own_thread():
            # In a callback of a future: the answer may have to be opened by this very thread.
            return len(found) == len(job_ids)
        deadline = time.monotonic() + ANSWER_S
        taken = [one.cancel_taken.wait(deadline - time.monotonic()) for one in found]
        return len(found) == len(job_ids) and all(taken) and all(map(_will_be_cancelled, found))

    def ask_to_cancel(self, *job_ids: str, interrupt: bool = False) -> list[Pending]:
        """Ask for the end of these jobs without waiting for any answer; give those known."""
        with self.lock:
            found = [self.pending[one] for one in job_ids if one in self.pending]
            for pending in found:
                pending.cancelling, pending.interrupt = True, interrupt
            withdrawn = {one.job_id for one in found if self.sending.window.withdraw(one)}
            wanted = [one for one in job_ids if one not in withdrawn]
            for part in parts(wanted, IDS_PER_MESSAGE):
                self.send(wire.Cancel(part, interrupt))
        for pending in found:
            if pending.job_id in withdrawn:
                self._hearing.endings.withdrawn(pending)
        return found

    def abandon(self, pending: Pending) -> None:
        """Nobody waits for this inline job any more: give its lease back whenever it comes."""
        with self.lock:
            pending.abandoned = True
            begun = pending.last_begun
        self.ask_to_cancel(pending.job_id)
        if begun is not None:
            self.release(begun.job_id, begun.attempt, failed=True)

    def release(self, job_id: str, attempt: int, *, failed: bool) -> None:
        """The body of an inline job has ended."""
        with self.lock:
            released = Released(job_id, attempt, failed)
            if pending := self.pending.get(job_id):
                pending.released = released
            self.send(wire.Release((released,)))

    def wait_for_end(self, pending: Pending) -> None:
        """Wait until a released job has ended; without a broker it ends later."""
        while True:
            try:
                pending.future.exception(timeout=QUIET_S)
            except TimeoutError:
                connection = self._connection
                if connection is not None and connection.is_open:
                    continue
                job_id = pending.job_id
                warn(f"the broker is gone: it is told later that job {job_id} has ended")
            return

    def ask(self, question: wire.Message, answer: type[M]) -> M:
        """Ask the broker for facts; the next broker if this one dies meanwhile."""

        def send() -> None:
            self._while_connected(lambda: self._open(question))

        return self.questions.ask(send, answer)

    def _open(self, question: wire.Message) -> None:
        self.questions.open = question
        self.send(question)

    def parcel_session(self) -> str:
        """The session under which large payloads are written; protects them from sweeps."""
        with self.lock:
            if self._parcel_lock < 0:
                self._parcel_lock = find_parcels(os.environ).hold(self.session)
            return self.session

    def close(self) -> None:
        """Leave. Unfinished jobs are given up here; they end when this process does."""
        with self.lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self.reporter.close()
        self._hearing.give_up(BrokerUnavailable("this process has left its broker"), _at_once)
        with self.lock:
            self._lost_at = None
            self.session = uuid.uuid4().hex
            self.drop_parcel_lock()
        clear_shelves()

    def drop_parcel_lock(self) -> None:
        """Also for a child after a fork: the lock is its parent's."""
        if self._parcel_lock >= 0:
            os.close(self._parcel_lock)
            self._parcel_lock = -1

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
            self.ask_to_cancel(*(one.job_id for one in self._attached()))
        self.close()

    def _attached(self) -> list[Pending]:
        with self.lock:
            return [one for one in self.pending.values() if one.awaited]


def _at_once(task: Task) -> None:
    task()


def _will_be_cancelled(pending: Pending) -> bool:
    return not pending.future.done() or pending.future.cancelled()


_client: Client | None = None
_making = threading.Lock()
_of_parents: list[Client] = []


def this_client() -> Client:
    """Give the one client of this process."""
    global _client
    if _client is not None:
        return _client
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
        _client.drop_parcel_lock()
        _of_parents.append(_client)  # kept, so that its sockets are not closed twice
        _client = None


os.register_at_fork(after_in_child=_after_fork)
