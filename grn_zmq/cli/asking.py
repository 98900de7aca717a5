"""Questions to a broker, without a thread and without all that a client needs for its jobs.

An `Asker` speaks to one broker, which may be dying: it answers soon, or not at all. `ask`
goes on with the next one, as a client does.
"""

import os
import time
import uuid
from types import TracebackType
from typing import Final, TypeVar

import zmq

from .. import wire
from ..discovery import find_address, is_locked
from ..errors import BrokerUnavailable
from ..facts import DeviceRow, JobRow
from ..paths import find_places
from ..refusals import refusal

M = TypeVar("M", bound=wire.Message)

# A broker that is not heard of for so long is asked again, or the next one, if there is one.
AGAIN_S: Final = 3.0
PATIENCE_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.02

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
                raise refusal(message.reason, message.text)
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


_asker: tuple[int, Asker] | None = None


def ask(question: wire.Message, answer: type[M]) -> M:
    """Ask the broker of this user; the next one if it dies before it has answered.

    Only for what may be asked twice without harm.

    Raises:
        BrokerUnavailable: There is none, or none has answered for a minute.
        RequestRefused: The broker says no.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        asker = _current()
        if asker is None:
            time.sleep(LOOK_AGAIN_S)
            continue
        found = asker.ask(question, answer, min(AGAIN_S, deadline - time.monotonic()))
        if found is not None:
            return found
        _leave()  # its answer may still come, and is not one to the next question
    raise BrokerUnavailable(f"the broker has not answered within {PATIENCE_S:.0f} s")


def _current() -> Asker | None:
    """The connection to the broker that lives now; None while one is starting."""
    global _asker
    places = find_places(os.environ)
    address = find_address(places)
    if address is None:
        if not is_locked(places):
            raise BrokerUnavailable(f"no broker is running in {places.directory}")
        return None
    if _asker is None or _asker[0] != address.pid:
        _leave()
        _asker = (address.pid, Asker(address.clients))
    return _asker[1]


def _leave() -> None:
    global _asker
    if _asker is not None:
        _asker[1].close()
        _asker = None
