"""The calls of a train that are in a job process: their tokens, answers and output."""

import os
from collections.abc import Sequence
from typing import Final

from grn_zmq import channel
from grn_zmq.traincalls import Answer, Answers

# Answers are small, and many are there at once.
READ_BYTES: Final = 1 << 20


class Coupling:
    """One packet of calls that a job process was given.

    `left` is how many of them have neither answered nor been taken back.
    """

    def __init__(self, attempts: Sequence[tuple[str, int]]) -> None:
        """Make what both sides need.

        Raises:
            OSError: Too many files are open.
        """
        self.left = len(attempts)
        self._attempts = attempts
        self._answered = 0
        self._answers = Answers()
        self.fd, self._far = os.pipe()
        try:
            flags = os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC
            self._tokens = os.eventfd(len(attempts), flags)
        except OSError:
            channel.close_all([self.fd, self._far])
            raise
        os.set_blocking(self.fd, False)

    @property
    def far_ends(self) -> list[int]:
        """What the job process gets: where it answers, and its tokens."""
        return [self._far, self._tokens]

    def fed(self) -> None:
        """The job process has its ends: ours of them are not needed any more."""
        os.close(self._far)
        self._far = -1

    def take_back(self) -> int:
        """Let nothing more begin; give how many of the last calls never will."""
        taken = 0
        try:
            while os.eventfd_read(self._tokens):
                taken += 1
        except BlockingIOError:
            pass
        self.left -= taken
        return taken

    def read(self) -> list[Answer]:
        """Give the answers that are there.

        Raises:
            ValueError: The user's code wrote to our pipe.
        """
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return []
        found = list(self._answers.take(data))
        if len(found) > self.left:
            raise ValueError("more answers than calls")
        self.left -= len(found)
        self._answered += len(found)
        return found

    @property
    def current(self) -> tuple[str, int] | None:
        """The first that has not answered, if there is one."""
        return self._attempts[self._answered] if self.left else None

    def close(self) -> None:
        channel.close_all([self.fd, self._tokens, *([self._far] if self._far >= 0 else [])])
