"""Threads that open what jobs returned, apart from the one that receives it.

Unpickling runs code of the user, and so do the callbacks of futures: either may take long, or
for ever. One thread does it all, until something holds it up; then another takes over, so that
what hangs holds up nobody else.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from .shelf import clear_shelves

# Longer than any usual value takes, shorter than people notice.
STUCK_S: Final = 0.5
# Idle threads end after a while; most programs wait for one job after the other.
IDLE_S: Final = 10.0

Task = Callable[[], None]


class Openers:
    """Runs tasks in the order in which they came, save for those that hang."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._busy_since: dict[int, float] = {}
        self._idle = 0
        self._threads: set[int] = set()

    def put(self, *tasks: Task) -> None:
        """Run these soon, in a thread of ours."""
        with self._changed:
            self._tasks.extend(tasks)
            if self._idle:
                self._changed.notify()
            elif not self._threads:
                self._start()

    def tick(self, now: float) -> float | None:
        """Take over from threads that hang; give the seconds after which to look again."""
        if not self._tasks:
            return None
        with self._changed:
            if not self._tasks or self._idle:
                return STUCK_S
            newest = max(self._busy_since.values(), default=now)
            if now - newest < STUCK_S:
                return STUCK_S - (now - newest)
            self._start()
            return STUCK_S

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller runs in one of our threads, as callbacks of futures do."""
        return threading.get_ident() in self._threads

    def _start(self) -> None:
        # Known before it runs, so that no second one is started for the same task.
        thread = threading.Thread(target=self._run, name="grn-opener", daemon=True)
        thread.start()
        assert thread.ident is not None
        self._threads.add(thread.ident)
        self._busy_since[thread.ident] = time.monotonic()

    def _run(self) -> None:
        me = threading.get_ident()
        with self._changed:
            pass  # from here on it is known who we are
        while task := self._next(me):
            try:
                task()
            except BaseException:
                _log()
            del task  # what it holds must not live on while we wait
        clear_shelves()  # no job has ended for a while

    def _next(self, me: int) -> Task | None:
        """Give the next task, or None if there was none for long."""
        try:
            # Without the lock while there is more: as a rule they come in batches.
            task = self._tasks.popleft()
            self._busy_since[me] = time.monotonic()
            return task
        except IndexError:
            return self._wait(me)

    def _wait(self, me: int) -> Task | None:
        with self._changed:
            self._busy_since.pop(me, None)
            self._idle += 1
            self._changed.wait_for(lambda: bool(self._tasks), timeout=IDLE_S)
            self._idle -= 1
            try:
                task = self._tasks.popleft()
            except IndexError:  # none for long, or another thread was first and goes on
                self._threads.discard(me)
                return None
            self._busy_since[me] = time.monotonic()
            return task


def _log() -> None:
    from loguru import logger

    logger.exception("what was to be done at the end of a job failed")
