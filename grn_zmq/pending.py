"""What a client has still to hear about its jobs."""

import queue
import threading
from typing import Any, Final

from .futures import Future
from .records import Begun, Blob, JobSpec, Released
from .templates import Template

# When nothing was heard of a job for so long, ask; and less and less often. A broker that reads
# an old greeting after a new one answers elsewhere: this is sooner than it gives a client up.
PULL_S: Final = 10.0
MOST_PULL_S: Final = 300.0


class Pending:
    """A job this process still has to hear about.

    There may be many thousands: of a call only its template and payload are kept, and what few
    of them need is made when it is asked for.
    """

    __slots__ = (
        "_accepted",
        "_cancel_taken",
        "_spec",
        "abandoned",
        "begun",
        "blobs",
        "cancelling",
        "ended",
        "ever_sent",
        "future",
        "interrupt",
        "is_accepted",
        "is_cancel_taken",
        "job_id",
        "last_begun",
        "number",
        "payload",
        "pull_at",
        "pull_s",
        "released",
        "template",
        "waits",
    )

    def __init__(
        self,
        spec: JobSpec | None,
        future: Future[Any],
        blobs: tuple[Blob, ...] = (),
        template: Template | None = None,
        payload: bytes = b"",
    ) -> None:
        """Take note of a job: by its own description, or as one of many like calls.

        Args:
            spec: None for a call that has a template, and for a job of somebody else.
        """
        self._spec = spec
        self.template = template
        self.payload = payload
        self.blobs = blobs if template is None else template.blobs
        self.future = future
        self.job_id = future.job_id
        # By which people know it, once it is accepted.
        self.number = 0
        self.is_accepted = self.is_cancel_taken = False
        self._accepted: threading.Event | None = None
        self._cancel_taken: threading.Event | None = None
        self.begun: queue.SimpleQueue[Begun | None] | None = None
        self.last_begun: Begun | None = None
        self.released: Released | None = None
        self.abandoned = False
        # Asked to end; and whether by SIGINT first.
        self.cancelling = self.interrupt = False
        # The broker has told how it ended; its value is being opened.
        self.ended = False
        # Still to be sent; and whether any broker may have heard of it.
        self.waits = self.ever_sent = False
        self.pull_at = float("inf")
        self.pull_s = PULL_S

    @property
    def spec(self) -> JobSpec | None:
        """How the job was described; None for one that somebody else has submitted."""
        if self._spec is None and self.template is not None:
            self._spec = self.template.spec(self.job_id, self.payload)
        return self._spec

    @property
    def like(self) -> JobSpec | None:
        """The same, where id and payload do not matter; costs nothing."""
        return self._spec if self.template is None else self.template.like

    @property
    def accepted(self) -> threading.Event:
        """For who waits until the broker has it, or will never have it."""
        # The lock of the future is at hand, and nobody waits under it.
        with self.future._condition:
            if self._accepted is None:
                self._accepted = threading.Event()
        if self.is_accepted:
            self._accepted.set()
        return self._accepted

    @property
    def cancel_taken(self) -> threading.Event:
        """For who waits until the broker has decided about its cancellation."""
        with self.future._condition:
            if self._cancel_taken is None:
                self._cancel_taken = threading.Event()
        if self.is_cancel_taken:
            self._cancel_taken.set()
        return self._cancel_taken

    def accept(self) -> None:
        """The broker has it safe, or nothing more will be heard of it."""
        self.is_accepted = True  # before the look: who makes the event looks after that
        if self._accepted is not None:
            self._accepted.set()

    def take_cancel(self) -> None:
        """The broker has decided about its cancellation, or it has ended."""
        self.is_cancel_taken = True
        if self._cancel_taken is not None:
            self._cancel_taken.set()

    @property
    def awaited(self) -> bool:
        """Whether a program that ends normally waits for it: not for what it has released."""
        like = self.like
        return like is not None and not like.detached and self.released is None

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
        self.accept()
        self.take_cancel()
        if self.begun is not None:
            self.begun.put(None)
