"""One process's connection to its broker: a thread that owns the socket.

Everybody else hands messages over and is called back from that thread.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import zmq

from . import wire
from .batches import share_of_message
from .discovery import Address, find_address, is_locked
from .errors import BrokerUnavailable, VersionMismatch
from .paths import Places
from .records import JobSpec

# A broker that holds the lock is starting, or busy: worth waiting for.
WAIT_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.02
MAX_BATCH_BYTES: Final = 8 << 20
# Long enough for what is queued to leave, short enough for the end of a program.
CLOSE_S: Final = 2.0
LINGER_MS: Final = 500

OnMessage = Callable[[wire.Message], None]
OnLost = Callable[[BaseException], None]


class Connection:
    """Connects when made, and is used up when its broker dies."""

    def __init__(
        self, places: Places, session: str, on_message: OnMessage, on_lost: OnLost
    ) -> None:
        """Connect and greet.

        Raises:
            BrokerUnavailable: No broker lives, or one does not answer for a minute.
            VersionMismatch: The broker speaks another protocol.
        """
        deadline = time.monotonic() + WAIT_S
        self._address = _wait_for_address(places, deadline)
        self._session = session
        self._on_message = on_message
        self._on_lost = on_lost
        self._outgoing: deque[wire.Message | JobSpec] = deque()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._greeted = threading.Event()
        self._error: BaseException | None = None
        self._closing = self._abandoned = False
        self._waking = threading.RLock()  # a signal handler may send while we do
        self.alive = True
        self._thread = threading.Thread(target=self._run, name="grn-client", daemon=True)
        self._thread.start()
        try:
            self._await_greeting(deadline)
        except BaseException:
            self.abandon()
            raise

    def send(self, message: wire.Message | JobSpec) -> None:
        """Queue a message; jobs that wait together travel in one message."""
        self._outgoing.append(message)
        self._wake()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller runs in our thread, as callbacks of futures do."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Send what is queued, then let go."""
        self._closing = True
        self._wake()
        if not self.is_this_thread:
            self._thread.join(timeout=CLOSE_S)

    def abandon(self) -> None:
        """Let go without sending anything or waiting for anybody."""
        self._outgoing.clear()
        self._abandoned = self._closing = True
        self._wake()

    def _wake(self) -> None:
        with self._waking:  # its descriptor must not be closed, and used again, meanwhile
            if self.alive:
                os.eventfd_write(self._wakeup, 1)

    def _await_greeting(self, deadline: float) -> None:
        while not self._greeted.wait(timeout=0.1):
            if self._error is not None:
                raise self._error
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"the broker (pid {self._address.pid}) has not answered for {WAIT_S:.0f} s"
                )
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        context = zmq.Context()
        socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        try:
            pidfd = os.pidfd_open(self._address.pid)
        except OSError:
            pidfd = -1
        try:
            self._serve(socket, pidfd)
        except BaseException as error:
            self._error = error
        finally:
            socket.close(linger=LINGER_MS if self._closing and not self._abandoned else 0)
            context.term()
            with self._waking:
                self.alive = False
                os.close(self._wakeup)
            if pidfd >= 0:
                os.close(pidfd)
            self._greeted.set()
        if not self._closing:
            self._on_lost(self._error or BrokerUnavailable("the broker died"))

    def _serve(self, socket: "zmq.Socket[bytes]", pidfd: int) -> None:
        if pidfd < 0:
            raise BrokerUnavailable("the broker died")
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(self._address.clients)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(pidfd, zmq.POLLIN)
        poller.register(self._wakeup, zmq.POLLIN)
        hello = wire.Hello(wire.PROTOCOL, self._session, os.getpid())
        self._outgoing.appendleft(hello)
        unsent: deque[wire.Frames] = deque()
        while True:
            self._send_queued(socket, unsent)
            # Asked after sending: the wakeup may have told of the last message and the end.
            if self._abandoned or (self._closing and not self._outgoing and not unsent):
                return
            ready = dict(poller.poll(10 if unsent or self._outgoing else None))
            if self._wakeup in ready:
                os.eventfd_read(self._wakeup)
            if socket in ready:
                self._receive(socket)
            if pidfd in ready and socket not in ready:
                return

    def _send_queued(self, socket: "zmq.Socket[bytes]", unsent: "deque[wire.Frames]") -> None:
        while unsent or self._outgoing:
            if not unsent:
                unsent.extend(self._frames(self._next_message()))
                continue
            try:
                socket.send_multipart(unsent[0], flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            unsent.popleft()

    def _frames(self, message: wire.Message) -> list[wire.Frames]:
        """Encode a message; a job that cannot be said is refused here, and it alone."""
        try:
            return [wire.encode(message)]
        except ValueError as error:  # BadMessage, or text that is no Unicode
            jobs = message.jobs if isinstance(message, wire.Submit) else ()
            if len(jobs) > 1:
                return [one for job in jobs for one in self._frames(wire.Submit((job,)))]
            ids = tuple(job.job_id for job in jobs)
            self._on_message(wire.Refused("bad-request", f"cannot be sent: {error}", ids))
            return []

    def _next_message(self) -> wire.Message:
        first = self._outgoing.popleft()
        if not isinstance(first, JobSpec):
            return first
        jobs, filled = [first], _share(first)
        while self._outgoing and len(jobs) < wire.MAX_JOBS_PER_MESSAGE:
            following = self._outgoing[0]
            if not isinstance(following, JobSpec):
                break
            filled += _share(following)
            if filled > 1.0:
                break
            jobs.append(following)
            self._outgoing.popleft()
        return wire.Submit(tuple(jobs))

    def _receive(self, socket: "zmq.Socket[bytes]") -> None:
        while True:
            try:
                frames = socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            message = wire.decode(frames)
            if isinstance(message, wire.Welcome):
                self._greeted.set()
            elif isinstance(message, wire.Refused) and message.reason == "version":
                raise VersionMismatch(wire.PROTOCOL, message.text)
            else:
                self._on_message(message)


def _share(spec: JobSpec) -> float:
    """The part of one message that a job takes, at most; large arguments travel alone."""
    values = (text for text in spec.by.values() if isinstance(text, str))
    texts = (spec.job_type, spec.name, spec.stdin, *spec.by, *values)
    return share_of_message(*texts) + len(spec.payload) / MAX_BATCH_BYTES


def _wait_for_address(places: Places, deadline: float) -> Address:
    while True:
        if address := find_address(places):
            return address
        if not is_locked(places):
            raise BrokerUnavailable(f"no broker is running in {places.directory}")
        if time.monotonic() > deadline:
            raise BrokerUnavailable(
                f"a broker has been starting for {WAIT_S:.0f} s without getting ready"
            )
        time.sleep(LOOK_AGAIN_S)
