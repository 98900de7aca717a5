"""Questions to the broker that are answered at once: lists, and orders of the command line."""

import queue
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from . import wire
from .errors import BrokerUnavailable

ANSWER_S: Final = 60.0

M = TypeVar("M", bound=wire.Message)


class Questions:
    """One question at a time, so that it is clear which one an answer belongs to."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[wire.Message | BaseException] = queue.SimpleQueue()
        # What a new broker has to be asked again.
        self.open: wire.Message | None = None

    def ask(self, send: Callable[[], None], answer: type[M]) -> M:
        """Wait for the answer to the question that `send` opens and sends."""
        with self._asking:
            while not self._answers.empty():
                self._answers.get()  # to a question that was given up
            try:
                send()
                reply = self._answers.get(timeout=ANSWER_S)
            except queue.Empty:
                raise BrokerUnavailable(
                    f"the broker has not answered for {ANSWER_S:.0f} s"
                ) from None
            finally:
                self.open = None
        if isinstance(reply, BaseException):
            raise reply
        assert isinstance(reply, answer)
        return reply

    def answer(self, reply: wire.Message | BaseException) -> bool:
        """Hand over what was asked for, or why not; False if nobody asks."""
        if self.open is None:
            return False
        self.open = None
        self._answers.put(reply)
        return True
