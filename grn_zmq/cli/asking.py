"""Questions to a broker, without a thread and without all that a client needs for its jobs.

An `Asker` speaks to one broker, which may be dying: it answers soon, or not at all. `ask`
goes on with the next one, as a client does.
"""

import time
import uuid
from types import TracebackType
from typing import Final, TypeVar

from .. import wire
from ..errors import BrokerUnavailable
from ..facts import DeviceRow, JobRow
from ..refusals import refusal
from .contact import Contact, find_broker

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
        self._contact = Contact(clients, _SESSION)

    def ask(self, question: wire.Message, answer: type[M], seconds: float) -> M | None:
        """Give the answer, or None if there is none in time, or on this connection.

        Raises:
            RequestRefused: The broker does not speak to us, or does not know the question.
        """
        self._contact.send(question)
        deadline = time.monotonic() + seconds
        while (wait_s := deadline - time.monotonic()) > 0:
            message = self._contact.hear(wait_s)
            if isinstance(message, answer):
                return message
            match message:
                case wire.Refused(reason="greet-first"):
                    return None  # it has lost our connection: whoever asks again makes another
                case wire.Refused(reason, text):
                    raise refusal(reason, text)
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
        self._contact.close()

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
    address = find_broker()
    if address is None:
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
