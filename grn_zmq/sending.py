"""What goes to the broker: jobs as fast as it gives credits, what they share before them."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from . import wire
from .connection import Connection
from .pending import Pending
from .window import Window

# Closures over data are new blobs with every call; forgetting only costs sending again.
MOST_BLOBS_KNOWN: Final = 10_000


class Sending:
    """Hands jobs and messages over to the connection, in the order in which they were given."""

    def __init__(
        self, lock: threading.RLock, connection: Callable[[], Connection | None]
    ) -> None:
        self._lock = lock
        self._connection = connection
        self.window = Window()
        self._sent_blobs: set[str] = set()

    def send(self, *messages: wire.Message) -> None:
        """Hand messages over, after the jobs that were given before them.

        Without a broker they are dropped, and said again in time.
        """
        with self._lock:
            self.send_waiting()
            connection = self._connection()
            if connection is not None:
                connection.send(*messages)

    def send_aside(self, message: wire.Message) -> None:
        """Hand over a message that has nothing to do with the jobs that wait."""
        connection = self._connection()
        if connection is not None:
            connection.send(message)

    def send_waiting(self) -> None:
        """Send the jobs for which there are credits."""
        with self._lock:
            connection = self._connection()
            if connection is not None and connection.is_open and self.window.ready:
                self.send_jobs(self.window.take())

    def send_jobs(self, jobs: Sequence[Pending]) -> None:
        """Send jobs, and what they share unless the broker has it; blobs first."""
        connection = self._connection()
        if connection is None:
            return
        if len(self._sent_blobs) > MOST_BLOBS_KNOWN:
            self._sent_blobs.clear()
        now = time.monotonic()
        new: list[wire.Message] = []
        last = None
        for pending in jobs:
            pending.heard(now)
            if pending.blobs is not last:
                last = pending.blobs
                new += self._new_blobs(pending)
        connection.send(*new, *[one for one in jobs if one.like is not None])

    def _new_blobs(self, pending: Pending) -> list[wire.Message]:
        new: list[wire.Message] = []
        for blob in pending.blobs:
            if blob.digest not in self._sent_blobs:
                self._sent_blobs.add(blob.digest)
                new.append(wire.Blobs((blob,)))
        return new

    def restart(self, granted: int) -> None:
        """Another broker, or another stream: what was sent may not have come."""
        self._sent_blobs.clear()
        self.window.restart(granted)
