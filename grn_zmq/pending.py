"""What a client has still to hear about its jobs, and what it may send meanwhile."""

import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from .futures import Future
from .limits import CREDITS
from .records import Begun, Blob, JobSpec, Released

# When nothing was heard of a job for so long, ask; and less and less often. A broker that reads
# an old greeting after a new one answers elsewhere: this is sooner than it gives a client up.
PULL_S: Final = 10.0
MOST_PULL_S: Final = 300.0


@dataclass(slots=True)
class Pending:
    """A job this process still has to hear about."""

    spec: JobSpec | None
    future: Future[Any]
    blobs: tuple[Blob, ...] = ()
    # By which people know it, once it is accepted.
    number: int = 0
    accepted: threading.Event = field(default_factory=threading.Event)
    cancel_taken: threading.Event = field(default_factory=threading.Event)
    begun: "queue.SimpleQueue[Begun | None] | None" = None
    last_begun: Begun | None = None
    released: Released | None = None
    abandoned: bool = False
    # Asked to end; and whether by SIGINT first.
    cancelling: bool = False
    interrupt: bool = False
    # The broker has told how it ended; its value is being opened.
    ended: bool = False
    pull_at: float = float("inf")
    pull_s: float = PULL_S

    @property
    def awaited(self) -> bool:
        """Whether a program that ends normally waits for it: not for what it has released."""
        attached = self.spec is not None and not self.spec.detached
        return attached and self.released is None

    def heard(self, now: float) -> None:
        """The broker spoke of it: no need to ask for a while."""
        self.pull_s = PULL_S
        self.pull_at = now + PULL_S

    def pulled(self, now: float) -> None:
        """It was asked for; next time later."""
        self.pull_s = min(2 * self.pull_s, MOST_PULL_S)
        self.pull_at = now + self.pull_s

    def begins(self, begun: Begun) -> bool:
        """Take note of an attempt; False if it was told of before."""
        if self.last_begun is not None and begun.attempt <= self.last_begun.attempt:
            return False
        self.last_begun = begun
        self.released = None
        return True

    def fail(self, error: BaseException) -> None:
        """Nothing more will be heard of it."""
        self.future.fail(error)
        self.let_go()

    def let_go(self) -> None:
        """Wake everyone who waits for a step of a job that has ended."""
        self.accepted.set()
        self.cancel_taken.set()
        if self.begun is not None:
            self.begun.put(None)


class Window:
    """Which jobs may be on their way: as many without answer as the broker gave credits."""

    def __init__(self) -> None:
        self._credits = CREDITS
        self._waiting: dict[str, None] = {}
        self._unanswered: dict[str, None] = {}
        self._ever_sent: set[str] = set()

    def add(self, job_id: str) -> None:
        self._waiting[job_id] = None

    def take(self) -> list[str]:
        """Give those that may be sent now, in the order in which they were added."""
        room = self._credits - len(self._unanswered)
        taken = [one for one, _ in zip(self._waiting, range(room), strict=False)]
        for job_id in taken:
            del self._waiting[job_id]
            self._unanswered[job_id] = None
        self._ever_sent.update(taken)
        return taken

    def answered(self, job_ids: Iterable[str]) -> None:
        """The broker has these, or does not want them."""
        for job_id in job_ids:
            self._unanswered.pop(job_id, None)
            self._waiting.pop(job_id, None)
            self._ever_sent.discard(job_id)

    def restart(self, granted: int) -> None:
        """A new connection: what was not answered is sent again, first."""
        self._credits = max(1, granted)
        self._waiting = self._unanswered | self._waiting
        self._unanswered = {}

    def clear(self) -> None:
        """All of them were given up."""
        self.answered([*self._unanswered, *self._waiting])

    def is_unanswered(self, job_id: str) -> bool:
        return job_id in self._unanswered

    def withdraw(self, job_id: str) -> bool:
        """Take back a job; False if a broker may have it."""
        if job_id in self._ever_sent or job_id not in self._waiting:
            return False
        del self._waiting[job_id]
        return True
