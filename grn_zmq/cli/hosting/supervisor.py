"""Broker and workers as children of one process: started in order, kept up, ended together."""

import contextlib
import json
import os
import select
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loguru import logger

from ...discovery import SupervisorLock, find_address, lock_holder
from ...errors import BrokerRunning, GrnError, RequestRefused
from ...facts import JobRow
from ...lifeline import Signalled
from ...paths import find_places
from ...wire import Stop, Stopping
from ..asking import Asker
from ..common import counted
from .children import CannotStart, Child

READY_S: Final = 60.0
ANSWER_S: Final = 5.0
JOINED_S: Final = 0.5
# Longer than workers take to end their jobs.
LEAVE_S: Final = 15.0
# A broker that was told to end does so within 2 s.
BROKER_LEAVE_S: Final = 4.0
LOOK_AGAIN_S: Final = 0.02
# The status of a fosterer whose workers were all told to leave; see `workers/server.py`.
LEFT_STATUS: Final = 3
# Instead of what workers announce, where there are none.
NO_WORKERS: Final[dict[str, Any]] = {
    "devices": 0,
    "text": "No workers here: they join with `grn-workers`",
}


class StartFailed(GrnError):
    """Broker or workers ended before they were ready; they have said why themselves."""

    def __init__(self, status: int) -> None:
        super().__init__(f"broker and workers did not start (status {status})")
        self.status = status


class TooSlow(GrnError):
    """Broker and workers live but do not get ready."""

    def __init__(self) -> None:
        super().__init__(
            f"broker and workers were not ready within {READY_S:.0f} s, so they were ended. "
            f"Their log is above; --debug makes it longer"
        )


class Supervisor:
    """Starts workers and broker, starts again what dies, and leaves nothing behind."""

    def __init__(
        self,
        options: Sequence[str] | None,
        broker_options: Sequence[str],
        broker_variables: Mapping[str, str],
        debug: bool,
    ) -> None:
        """Prepare; `start` starts.

        Args:
            options: What the workers are told; None for a broker alone.
        """
        more = ["--debug"] if debug else []
        self._workers = Child("workers", [*more, *(options or ())])
        self._broker = Child("broker", [*more, *broker_options], broker_variables)
        self._alone = options is None
        self._places = find_places(os.environ)
        self._signalled = Signalled()
        self._lock: SupervisorLock | None = None
        self.kept = ""

    @property
    def _children(self) -> tuple[Child, ...]:
        return (self._broker,) if self._alone else (self._broker, self._workers)

    @property
    def stopping(self) -> bool:
        return self._signalled.stopping

    def start(self) -> str:
        """Start everything; give the line that says which devices are managed.

        Raises:
            BrokerRunning: A broker of this user lives already.
            CannotStart: There are too many processes, or too little memory.
            StartFailed: A child ended before all was ready, or a signal came.
            TooSlow: Nothing failed, but nothing got ready either.
            UnsafeDirectory: There is no private place for sockets.
        """
        self._places.make()
        holder = lock_holder(self._places)
        if holder is not None:
            raise BrokerRunning(holder)
        self._lock = SupervisorLock(self._places)
        announcement = NO_WORKERS if self._alone else self._start_workers()
        self._broker.start()
        self._await(lambda: find_address(self._places) is not None)
        address = find_address(self._places)
        if address is None:
            raise StartFailed(self._broker.status or 1)
        with Asker(address.clients) as asker:
            self.kept = describe_kept(asker.jobs(ANSWER_S))
            devices = int(announcement["devices"])
            self._await(lambda: len(asker.devices(JOINED_S)) >= devices)
        return str(announcement["text"])

    def _start_workers(self) -> dict[str, Any]:
        """Workers look for their devices first: most starts fail there, if they fail."""
        reading, writing = os.pipe()
        self._workers.start(["--announce", str(writing)], keep=(writing,))
        os.close(writing)
        announced = self._hear(reading)
        if not announced:
            self._workers.wait(READY_S)
            raise StartFailed(self._workers.status or 0)
        facts: dict[str, Any] = json.loads(announced)
        return facts

    def _hear(self, reading: int) -> bytes:
        """Read to the end what the workers announce; drivers may take long to answer."""
        said = b""
        deadline = time.monotonic() + READY_S
        with open(reading, "rb", buffering=0) as pipe:
            while not self.stopping:
                wait_s = max(0.0, deadline - time.monotonic())
                ready, _, _ = select.select([reading, self._signalled.fileno()], [], [], wait_s)
                if not ready:
                    raise TooSlow
                if reading in ready:
                    piece = pipe.read(4096)
                    if not piece:
                        return said
                    said += piece
        raise StartFailed(0)

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not condition():
            for child in self._children:
                if not child.alive:
                    raise StartFailed(child.status or 0)
            if self.stopping:
                raise StartFailed(0)
            if time.monotonic() > deadline:
                raise TooSlow
            time.sleep(LOOK_AGAIN_S)

    def serve(self, lifeline: int | None = None) -> None:
        """Keep all alive until a signal, the end of `lifeline`, or an order to the broker."""
        ends = [self._signalled.fileno(), *([] if lifeline is None else [lifeline])]
        while not self.stopping:
            watched = [one for child in self._children for one in child.watched]
            ready, _, _ = select.select([*ends, *watched], [], [], self._pause_s())
            self._signalled.take()
            if lifeline is not None and lifeline in ready and not os.read(lifeline, 4096):
                return
            if not self.stopping and self._look_after():
                return

    def _pause_s(self) -> float | None:
        if any(one.start_at is None and not one.alive for one in self._children):
            return 0.0  # it died since they were looked after, and is watched no more
        due = [one.start_at for one in self._children if one.start_at]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _look_after(self) -> bool:
        """Start what has died; True if all was ordered to end instead."""
        if self._broker.status == 0:
            return True
        for child in self._children:
            if child.alive:
                continue
            if child.start_at is None:
                if child is self._workers and child.status == LEFT_STATUS:
                    return self._workers_have_left()
                child.start_again()
            elif time.monotonic() >= child.start_at:
                self._stay_locked()
                self._start_now(child)
        return False

    def _start_now(self, child: Child) -> None:
        try:
            child.start()
        except CannotStart as error:  # not for ever: what runs goes on meanwhile
            logger.error(str(error))
            child.start_again()

    def _stay_locked(self) -> None:
        """Take our lock anew if it went with the runtime directory, as at a logout."""
        places = find_places(os.environ)
        if places == self._places and places.supervisor_lock.exists():
            return
        if self._lock is not None:
            self._lock.close()
        places.make()
        self._places, self._lock = places, SupervisorLock(places)

    def _workers_have_left(self) -> bool:
        """Whether the broker goes with them: it has told them to leave, so it should.

        It does not if they are of another version than a broker that was started again.
        """
        self._broker.wait(BROKER_LEAVE_S)
        if self._broker.alive:
            self._workers.start_again()
        return not self._broker.alive

    def end(self) -> bool:
        """End jobs, workers and broker, in this order; False if nothing was started."""
        try:
            if self._broker.status is None or self._workers.alive:
                self._end_in_order()
            return any(child.started for child in self._children)
        finally:
            for child in reversed(self._children):
                child.kill()
            if self._lock is not None:
                self._lock.close()

    def _end_in_order(self) -> None:
        ordered = self._order_to_stop()
        if not ordered:
            # Nobody can take the results: the workers keep them for the next broker.
            self._workers.terminate()
        deadline = time.monotonic() + LEAVE_S
        if not self._wait_for(self._workers, deadline):
            return
        if not (ordered and self._wait_for(self._broker, deadline)):
            self._broker.terminate()
            self._wait_for(self._broker, time.monotonic() + BROKER_LEAVE_S)

    def _order_to_stop(self) -> bool:
        address = find_address(self._places) if self._broker.alive else None
        if address is None:
            return False
        with contextlib.suppress(RequestRefused), Asker(address.clients) as asker:
            if asker.ask(Stop(drain=False), Stopping, ANSWER_S) is not None:
                return True
        logger.error("the broker does not answer; ending it without its help")
        return False

    def _wait_for(self, child: Child, deadline: float) -> bool:
        """Whether it has ended by itself before the deadline, and before anybody hurried us."""
        while child.alive and not self._signalled.hurrying:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                return False
            select.select([self._signalled.fileno(), *child.watched], [], [], wait_s)
            self._signalled.take()
        return not child.alive


def describe_kept(rows: Sequence[JobRow]) -> str:
    """What was found from before, in one line; nothing if there was nothing."""
    if not rows:
        return ""
    states = Counter(row.state for row in rows)
    queued = states["queued"]
    return (
        f"{counted(len(rows), 'job')} kept from before: {queued:,} queued, "
        f"{len(rows) - queued:,} to be looked after"
    )
