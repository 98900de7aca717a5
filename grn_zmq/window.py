"""Which jobs may be on their way: as many without answer as the broker gave credits."""

from collections import deque

from .limits import CREDITS
from .pending import Pending


class Window:
    """Jobs that wait to be sent, and those that were and have no answer yet."""

    def __init__(self) -> None:
        self._credits = CREDITS
        self._waiting: deque[Pending] = deque()
        self._unanswered: dict[str, Pending] = {}

    def add(self, pending: Pending) -> None:
        pending.waits = True
        self._waiting.append(pending)

    @property
    def ready(self) -> bool:
        """Whether something could be sent now."""
        return bool(self._waiting) and len(self._unanswered) < self._credits

    def take(self) -> list[Pending]:
        """Give those that may be sent now, in the order in which they were added."""
        waiting, unanswered = self._waiting, self._unanswered
        room = self._credits - len(unanswered)
        taken: list[Pending] = []
        while waiting and len(taken) < room:
            pending = waiting.popleft()
            if pending.waits:  # neither withdrawn nor answered meanwhile
                pending.waits, pending.ever_sent = False, True
                unanswered[pending.job_id] = pending
                taken.append(pending)
        return taken

    def answered(self, pending: Pending) -> None:
        """The broker has it, or does not want it."""
        pending.waits = False
        self._unanswered.pop(pending.job_id, None)

    def restart(self, granted: int) -> None:
        """A new connection: what was not answered is sent again, first."""
        self._credits = max(1, granted)
        again = list(self._unanswered.values())
        for pending in again:
            pending.waits = True
        self._unanswered.clear()
        self._waiting.extendleft(reversed(again))

    def clear(self) -> None:
        """All of them were given up."""
        for pending in self._waiting:
            pending.waits = False
        self._waiting.clear()
        self._unanswered.clear()

    def is_unanswered(self, pending: Pending) -> bool:
        return pending.job_id in self._unanswered

    def withdraw(self, pending: Pending) -> bool:
        """Take back a job; False if a broker may have it."""
        if pending.ever_sent or not pending.waits:
            return False
        pending.waits = False
        return True
