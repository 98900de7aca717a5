"""Questions to a broker that may be dying: answered soon, or not at all.

A client waits for the next broker where one dies; who starts and stops brokers must not.
"""

import os
import time
import uuid
from types import TracebackType
from typing import Final, TypeVar

import zmq

from .. import wire
from ..errors import RequestRefused
from ..records import DeviceRow, JobRow

M = TypeVar("M", bound=wire.Message)

# One session for all questions of this process: the broker keeps each until we end.
_SESSION: Final = uuid.uuid4().hex


class Asker:
    """A connection for questions, to one broker, without any thread."""

    def __init__(self, clients: str) -> None:
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(clients)
        self._send(wire.Hello(wire.PROTOCOL, _SESSION, os.getpid()))

    def ask(self, question: wire.Message, answer: type[M], seconds: float) -> M | None:
        """Give the answer, or None if there is none in time.

        Raises:
            RequestRefused: The broker does not speak to us, or does not know the question.
        """
        self._send(question)
        deadline = time.monotonic() + seconds
        while (wait_s := deadline - time.monotonic()) > 0:
            if not self._socket.poll(int(wait_s * 1000) + 1):
                continue
            message = wire.decode(self._socket.recv_multipart())
            if isinstance(message, answer):
                return message
            if isinstance(message, wire.Refused):
                raise RequestRefused(message.reason, message.text)
        return None

    def devices(self, seconds: float) -> tuple[DeviceRow, ...]:
        """The devices that have joined; none if the broker does not say."""
        answer = self.ask(wire.AskDevices(), wire.DevicesAre, seconds)
        return answer.rows if answer else ()

    def jobs(self, seconds: float) -> list[JobRow]:
        """The jobs that have not ended, as far as the broker says in time."""
        deadline = time.monotonic() + seconds
        rows: list[JobRow] = []
        while True:
            question = wire.AskJobs(rows[-1].number if rows else 0, False)
            answer = self.ask(question, wire.JobsAre, deadline - time.monotonic())
            rows += answer.rows if answer else ()
            if answer is None or not answer.more:
                return rows

    def close(self) -> None:
        self._socket.close()
        self._context.term()

    def _send(self, message: wire.Message) -> None:
        self._socket.send_multipart(wire.encode(message))

    def __enter__(self) -> "Asker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
