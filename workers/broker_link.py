"""The worker's connection to its broker, and to the next one when that is gone.

One socket is one connection: when it breaks the socket goes, with all that was in it, so
nothing that one broker sent or was to get reaches the next.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import zmq
from loguru import logger
from zmq.utils.monitor import parse_monitor_message

from grn_zmq import wire
from grn_zmq.records import Piece

# While so many messages wait to be sent, here and as many in the socket, no job output is
# read: a flood slows its own job down.
FULL: Final = 64
# Output of one message: four full reads of a pipe, or the lines of very many jobs.
MAX_OUTPUT_BYTES: Final = 256 << 10
# Of what is printed while no broker listens, so much is kept: the last.
KEPT_OUTPUT_BYTES: Final = 1 << 20
# How often a broker is looked for while there is none, and how long one may take to answer.
LOOK_S: Final = 0.05
HANDSHAKE_S: Final = 5.0
# At the end, for what is still on its way out.
LINGER_MS: Final = 1000

_LOST: Final = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class BrokerLink:
    """A DEALER socket that never blocks its worker, while there is a broker to talk to."""

    def __init__(self, find: Callable[[], str | None]) -> None:
        """Look for a broker from now on.

        Args:
            find: Gives the address for workers of the broker that lives, if one does.
        """
        self._find = find
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self._connected = False
        self._next_at = 0.0
        self._waiting: deque[wire.Frames] = deque()
        self._said: deque[Piece] = deque()
        self._said_bytes = 0
        # Whether a broker has welcomed us; until then output waits, and the oldest is dropped.
        self.open = False

    @property
    def full(self) -> bool:
        """Whether the broker cannot keep up; never while there is none."""
        return self.open and len(self._waiting) >= FULL

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send, or nobody to send it to."""
        return not self._waiting or not self._connected

    def wait_s(self, now: float) -> float:
        """Seconds until the next look for a broker; for ever while connected."""
        return float("inf") if self._connected else max(0.0, self._next_at - now)

    def look(self) -> bool | None:
        """See to the connection: True if there is a new one, False if it was lost."""
        news = self._events()
        now = time.monotonic()
        if self._connected or now < self._next_at:
            return news
        self._drop()  # whoever took the connection did not answer in time
        self._next_at = now + LOOK_S
        if address := self._find():
            self._connect(address)
            self._next_at = now + HANDSHAKE_S
        return news

    def _events(self) -> bool | None:
        news: bool | None = None
        while self.monitor is not None and self.monitor.poll(0):
            event = parse_monitor_message(self.monitor.recv_multipart())["event"]
            if event & zmq.EVENT_HANDSHAKE_SUCCEEDED:
                news = self._connected = True
            elif event & _LOST:
                news = False if self._connected or news else None
                self._drop()
                self._next_at = time.monotonic() + LOOK_S
        return news

    def _connect(self, address: str) -> None:
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, FULL)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | _LOST)
        self.socket.connect(address)

    def _drop(self) -> None:
        """Let the socket go; what was in it belongs to nobody any more."""
        self._connected = self.open = False
        self._waiting.clear()
        if self.socket is not None and self.monitor is not None:
            self.socket.disable_monitor()
            self.monitor.close(linger=0)
            self.socket.close()
        self.socket = self.monitor = None

    def say(self, piece: Piece) -> None:
        """Send this soon: together with what else is said, before any other message."""
        if self.open:
            too_large = self._said_bytes + len(piece.data) > MAX_OUTPUT_BYTES
            if too_large or len(self._said) >= wire.MAX_JOBS_PER_MESSAGE:
                self.flush()
        self._said.append(piece)
        self._said_bytes += len(piece.data)
        while not self.open and self._said_bytes > KEPT_OUTPUT_BYTES:
            self._said_bytes -= len(self._said.popleft().data)

    def greet(self, message: wire.Greet) -> None:
        """Send a greeting, ahead of all that was meant for whoever was greeted before."""
        self.open = False
        self._waiting.clear()
        self._waiting.append(wire.encode(message))
        self._send_waiting()

    def send(self, message: wire.Message) -> None:
        self._end_saying()  # all that a job printed comes before its end
        self._waiting.append(wire.encode(message))
        self._send_waiting()

    def flush(self) -> None:
        """Send what there is, as far as the socket takes it."""
        self._end_saying()
        self._send_waiting()

    def _end_saying(self) -> None:
        while self.open and self._said:
            pieces: list[Piece] = []
            size = 0
            while self._said and len(pieces) < wire.MAX_JOBS_PER_MESSAGE:
                size += len(self._said[0].data)
                if pieces and size > MAX_OUTPUT_BYTES:
                    break
                pieces.append(self._said.popleft())
            self._waiting.append(wire.encode(wire.Output(tuple(pieces))))
        if not self._said:
            self._said_bytes = 0

    def _send_waiting(self) -> None:
        while self._waiting and self.socket is not None:
            try:
                self.socket.send_multipart(self._waiting[0], flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            self._waiting.popleft()

    def received(self) -> Iterator[wire.Message]:
        """Give the messages that are there; what is none is logged and dropped."""
        while self.socket is not None:
            try:
                frames = self.socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            try:
                yield wire.decode(frames)
            except wire.BadMessage as error:
                logger.bind(facts={"why": str(error)}).warning("ignored a malformed message")

    def close(self) -> None:
        """Send the rest, if that does not take long, and end."""
        if self._connected and self.socket is not None:
            self.flush()
            self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._drop()
        self._context.term()
