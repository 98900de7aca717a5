"""One process's connection to its broker, over the deaths of brokers: a thread that speaks.

Everybody else hands messages over and is called back from that thread. A message that was
handed over while no broker was there is dropped: after each greeting the listener says again
whatever it still wants.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import zmq

from . import wire
from .discovery import Address, find_address
from .errors import BrokerUnavailable, VersionMismatch
from .failpoints import failpoint
from .link import Link, Outgoing
from .outage import QUIET_S, Outage, warn
from .paths import Places
from .refusals import refusal

# A broker that holds the lock is starting, or busy; one that died is started again.
WAIT_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.02
# Long enough for what is queued to leave, short enough for the end of a program.
CLOSE_S: Final = 2.0
# After jobs were sent, more of a burst are gathered for so long, unless somebody waits for one.
GATHER_S: Final = 0.0005
# The shortest sleep: it comes on top.
LOOK_SOON_S: Final = 0.001


class Rest(Enum):
    """What the thread does about jobs that are to be sent."""

    AWAKE = "looks before it sleeps"
    GATHERING = "looks soon"
    ASLEEP = "looks when it is woken"


class Listener(Protocol):
    """Whom a connection calls back, always from its own thread."""

    def on_welcome(self, welcome: wire.Welcome) -> None:
        """A broker has taken the greeting: say everything that it may not know."""

    def on_message(self, message: wire.Message) -> None:
        """The broker said something."""

    def on_gone(self, error: BaseException) -> None:
        """The end of this connection: no broker for too long, or none to speak with."""

    def on_tick(self, now: float) -> float | None:
        """Time has passed; give the seconds after which to be called again at the latest."""

    def acknowledge(self, now: float, *, hold: bool) -> None:
        """There is time to send: say what has come, unless it may wait for more."""

    def fill(self) -> None:
        """There is time to send: hand over the jobs that may go."""

    def has_more(self) -> bool:
        """Whether there are jobs that may go."""

    def leave_if_idle(self) -> bool:
        """The broker died: whether nobody misses it, and this connection is forgotten."""


class Connection:
    """Greets, and greets again: when the stream was cut, and when the next broker is there."""

    def __init__(
        self,
        find: Callable[[], Places],
        session: str,
        listener: Listener,
        *,
        wait_s: float = WAIT_S,
        lost_at: float | None = None,
    ) -> None:
        """Prepare; `start` connects.

        Args:
            find: Gives where to look for a broker; the next one may be elsewhere.
            wait_s: How long an outage may last.
            lost_at: When this process lost its last broker, on the monotonic clock; None if
                it never had one, and so has no reason to wait where nobody is.
        """
        self._find, self._session, self._listener = find, session, listener
        self._wait_s = wait_s
        self._lost_at = lost_at
        self._link: Link | None = None
        self._address: Address | None = None
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waking = threading.RLock()  # a signal handler may send while we do
        self._greeted = threading.Event()
        self._error: BaseException | None = None
        self._closing = self._abandoned = False
        self._open = False
        self._rest, self._hurried = Rest.AWAKE, False
        self._gather_until = 0.0
        # Whether a broker has ever welcomed us, and nothing has ended us since.
        self.greeted = False
        self.alive = True
        self._thread = threading.Thread(target=self._run, name="grn-client", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_greeted(self) -> None:
        """Wait until a broker has welcomed us for the first time.

        Raises:
            BrokerUnavailable: No broker lives, or one does not answer for a minute.
            VersionMismatch: The broker speaks another protocol.
        """
        self._greeted.wait()
        if self._error is not None:
            raise self._error

    def send(self, *messages: Outgoing) -> None:
        """Queue messages, if there is a broker to send them to."""
        with self._waking:
            if messages and self._open and self._link is not None:
                self._link.queue(messages)
                if self._rest is not Rest.AWAKE:
                    self.wake()

    def nudge(self) -> None:
        """There are jobs to send, at the latest when those of a burst are gathered."""
        if self._rest is Rest.ASLEEP:
            self.wake()

    def hurry(self) -> None:
        """Somebody waits for a job that is still to be sent."""
        self._hurried = True  # before the look: the thread looks at it after it has lain down
        if self._rest is not Rest.AWAKE:
            self.wake()

    def wake(self) -> None:
        """Let the thread look at what has changed."""
        with self._waking:  # its descriptor must not be closed, and used again, meanwhile
            if self.alive:
                self._rest = Rest.AWAKE  # before it is: afterwards it may sleep again
                os.eventfd_write(self._wakeup, 1)

    @property
    def is_open(self) -> bool:
        """Whether a broker has welcomed us and lives."""
        return self._open

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller runs in our thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Send what is queued, then let go."""
        self._closing = True
        self.wake()
        if not self.is_this_thread:
            self._thread.join(timeout=CLOSE_S)

    def abandon(self) -> None:
        """Let go without sending anything or waiting for anybody."""
        self._abandoned = True
        self._closing = True
        self.wake()

    def _run(self) -> None:
        context = zmq.Context()
        try:
            self._keep_connected(context)
        except BaseException as error:
            self._error = error
        finally:
            with self._waking:
                self.alive = self._open = self.greeted = False
                os.close(self._wakeup)
            context.term()
            if self._error is not None and not self._closing:
                self._listener.on_gone(self._error)
            if self._error is None and not self._greeted.is_set():
                self._error = BrokerUnavailable("this process has left its broker")
            self._greeted.set()

    def _keep_connected(self, context: "zmq.Context[zmq.Socket[bytes]]") -> None:
        while not self._closing:
            outage = Outage(self._lost_at, self._wait_s)
            self._serve_when_there(context, outage)
            self._lost_at = time.monotonic()
            if not self._closing and self._listener.leave_if_idle():
                return

    def _serve_when_there(
        self, context: "zmq.Context[zmq.Socket[bytes]]", outage: Outage
    ) -> None:
        """Find a broker and speak with it until it dies, or until we are closed."""
        while not self._closing:
            self._address = self._wait_for_address(outage)
            if self._address is None:
                return
            try:
                link = Link(context, self._address, self._wakeup, self._listener.on_message)
            except ProcessLookupError:
                continue  # it died since; its address goes with its lock
            with self._waking:
                self._link = link
            try:
                if self._serve(link, outage):
                    return
            finally:
                with self._waking:
                    self._link, self._open = None, False
                link.close(linger=self._closing and not self._abandoned)

    def _wait_for_address(self, outage: Outage) -> Address | None:
        waker = select.poll()
        waker.register(self._wakeup, select.POLLIN)
        while not self._closing:
            if address := find_address(self._find()):
                return address
            outage.check(self._find())
            # In steps, for a listener that wants to be called; what wakes us may be the end.
            self._listener.on_tick(time.monotonic())
            if waker.poll(LOOK_AGAIN_S * 1000):
                os.eventfd_read(self._wakeup)
        return None

    def _serve(self, link: Link, outage: Outage) -> bool:
        """Speak until the broker dies; True if it had welcomed us, or all is over."""
        welcomed = False
        while True:
            self._send(link)
            # Asked after sending: the wakeup may have told of the last message and the end.
            if self._abandoned or (self._closing and not (self._open and link.busy)):
                return True
            turn = link.wait(self._lie_down(link, self._timeout(outage)))
            self._rest = Rest.AWAKE
            if turn.cut:
                outage = self._cut(link, outage)
            if turn.connected:
                self._say_hello(link)
            if turn.readable and self._receive(link, outage):
                welcomed = True
            if turn.broker_died and not turn.readable:
                return welcomed

    def _send(self, link: Link) -> None:
        """Send messages, and the jobs that were gathered or that somebody waits for."""
        now = time.monotonic()
        hurried, self._hurried = self._hurried, False
        gathering = now < self._gather_until and not self._closing
        if self._open:
            self._listener.acknowledge(now, hold=gathering)
            if hurried or not gathering:
                self._listener.fill()
        if link.flush():
            self._gather_until = now + GATHER_S

    def _lie_down(self, link: Link, timeout_s: float | None) -> float | None:
        """Give the seconds to sleep; none if there is more to do.

        Others give us work first and then look whether we sleep; so the order here is crucial.
        """
        gather = time.monotonic() < self._gather_until
        self._rest = Rest.GATHERING if gather else Rest.ASLEEP
        more = not gather and self._open and self._listener.has_more()
        if more or self._hurried or link.has_news:
            self._rest = Rest.AWAKE
            return 0.0
        if not gather:
            return timeout_s
        return LOOK_SOON_S if timeout_s is None else min(timeout_s, LOOK_SOON_S)

    def _timeout(self, outage: Outage) -> float | None:
        asked = self._listener.on_tick(time.monotonic())
        if self._open:
            return asked
        outage.check(self._find(), answering=self._address)
        return QUIET_S if asked is None else min(asked, QUIET_S)

    def _cut(self, link: Link, outage: Outage) -> Outage:
        """The stream is gone, and with it all that was on the way."""
        was_open = self._open
        with self._waking:
            self._open = False
            link.drop_queued()
        return Outage(time.monotonic(), self._wait_s) if was_open else outage

    def _say_hello(self, link: Link) -> None:
        failpoint("client.hello")
        with self._waking:
            self._open = False
            link.drop_queued()
            link.queue([wire.Hello(wire.PROTOCOL, self._session, os.getpid())])
        link.flush()

    def _receive(self, link: Link, outage: Outage) -> bool:
        """Hand out what has come; True if a welcome was among it."""
        welcomed = False
        incoming = link.messages()
        while True:
            try:
                message = next(incoming, None)
            except wire.BadMessage as error:
                warn(f"the broker said what is no message: {error}")
                incoming = link.messages()
                continue
            match message:
                case None:
                    return welcomed
                case wire.Welcome():
                    welcomed = True
                    self._welcomed(message, outage)
                case wire.Refused(reason="version"):
                    raise VersionMismatch(wire.PROTOCOL, message.text)
                case wire.Refused(reason="too-many-clients"):
                    raise refusal(message.reason, message.text)
                case wire.Refused(reason="greet-first"):
                    self._say_hello(link)
                case _:
                    self._listener.on_message(message)

    def _welcomed(self, welcome: wire.Welcome, outage: Outage) -> None:
        outage.over()
        with self._waking:
            self._open = True
            if self._link is not None:
                self._link.takes_calls = welcome.protocol >= wire.PROTOCOL
        self._listener.on_welcome(welcome)
        self.greeted = True
        self._greeted.set()
