"""The worker's connection to its broker: messages in order, and its death noticed."""

import os
from collections import deque
from collections.abc import Iterator
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire
from grn_zmq.records import Piece

# While this much waits to be sent, no job output is read: a flood slows its own job down.
FULL: Final = 64
# Output of one message: four full reads of a pipe, or the lines of very many jobs.
MAX_OUTPUT_BYTES: Final = 256 << 10


class BrokerLink:
    """A DEALER socket that never blocks its worker."""

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 1000)
        self.socket.setsockopt(zmq.SNDHWM, 1000)
        self.socket.connect(address)
        self._waiting: deque[wire.Frames] = deque()
        self._said: list[Piece] = []
        self._said_bytes = 0

    @property
    def full(self) -> bool:
        return len(self._waiting) >= FULL

    @property
    def idle(self) -> bool:
        return not self._waiting

    def say(self, piece: Piece) -> None:
        """Send this soon: together with what else is said, before any other message."""
        too_large = self._said_bytes + len(piece.data) > MAX_OUTPUT_BYTES
        if too_large or len(self._said) == wire.MAX_JOBS_PER_MESSAGE:
            self.flush()
        self._said.append(piece)
        self._said_bytes += len(piece.data)

    def send(self, message: wire.Message) -> None:
        self._end_saying()  # all that a job printed comes before its end
        self._waiting.append(wire.encode(message))
        self.flush()

    def _end_saying(self) -> None:
        if self._said:
            self._waiting.append(wire.encode(wire.Output(tuple(self._said))))
            self._said, self._said_bytes = [], 0

    def flush(self) -> None:
        """Send what there is, as far as the socket takes it."""
        self._end_saying()
        while self._waiting:
            try:
                self.socket.send_multipart(self._waiting[0], flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            self._waiting.popleft()

    def received(self) -> Iterator[wire.Message]:
        """Give the messages that are there; what is none is logged and dropped."""
        while True:
            try:
                frames = self.socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            try:
                yield wire.decode(frames)
            except wire.BadMessage as error:
                logger.bind(facts={"why": str(error)}).warning("ignored a malformed message")

    def close(self) -> None:
        self.socket.close()
        self._context.term()


class BrokerLife:
    """Whether the broker process still lives, by its pidfd."""

    def __init__(self) -> None:
        self._pidfd = -1

    def watch(self, pid: int) -> bool:
        """Watch a new broker; False if it is gone already."""
        self.close()
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        return True

    def fileno(self) -> int:
        return self._pidfd

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
