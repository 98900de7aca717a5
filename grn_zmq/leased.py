"""What a process has of a lease that began, apart from the object that its user holds.

That object may be dropped anywhere, in the middle of anything: what it had is then let go by a
thread of ours, because letting go takes locks that whoever dropped it may hold.
"""

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any, Protocol

from . import backends, holding
from .choosing import VISIBLE
from .client import Client
from .errors import GrnError
from .pending import Pending
from .records import Begun
from .wire import AskDevices, DevicesAre


class Logger(Protocol):
    """What takes our messages: a logger of `logging`, of loguru, or anything alike."""

    def info(self, text: str, /) -> Any:
        """Take note of a step."""

    def warning(self, text: str, /) -> Any:
        """Take note of what the user should know."""


class Teller:
    """Tells steps to the user's logger; without one only what must be known, by loguru."""

    def __init__(self, logger: Logger | None) -> None:
        self._logger = logger

    def step(self, text: str) -> None:
        """Something went on as expected."""
        if self._logger is not None:
            self._logger.info(text)

    def waits(self, text: str) -> None:
        """It takes longer than a moment: say so to whoever watches."""
        self._chosen().info(text)

    def warn(self, text: str) -> None:
        self._chosen().warning(text)

    def _chosen(self) -> Logger:
        if self._logger is not None:
            return self._logger
        from loguru import logger

        return logger


class Held:
    """The devices of one lease, from its beginning until they are let go, once."""

    def __init__(self, client: Client, pending: Pending, begun: Begun, teller: Teller) -> None:
        self.begun = begun
        self.variables = {**begun.environment, "GRN_JOB_ID": begun.job_id}
        self.pid = os.getpid()
        self.kept: list[Any] = []
        self._client = client
        self._pending = pending
        self._teller = teller
        self._placeholder: backends.Placeholder | None = None
        self._token = -1
        self._letting_go = threading.Lock()
        self._gone = False

    def take(self, placeholder: backends.Placeholder | None) -> None:
        """Show the devices to this process, and put a placeholder on each."""
        _current[id(self)] = self
        _let_go_at_exit()
        self._pending.future.add_done_callback(lambda _: self._ended())
        self._token = holding.show(self.variables)
        if VISIBLE in self.variables:
            self._teller.step(f"set {VISIBLE}={os.environ[VISIBLE]}")
        self._placeholder = self._usable(placeholder)
        if self._placeholder is not None:
            first = holding.devices_before(self._token)
            for number in range(len(self.begun.indices)):
                self.kept.append(self._placeholder(first + number))

    def _usable(self, placeholder: backends.Placeholder | None) -> backends.Placeholder | None:
        if isinstance(placeholder, backends.Backend) and VISIBLE not in self.variables:
            self._teller.step(f"{self.begun.device} is no GPU: no placeholder is needed there")
            return None
        return placeholder

    def let_go(self, *, wait: bool) -> None:
        """Give the devices back, and wait until the broker has them; harmless if repeated.

        In a child after a fork nothing happens: the lease is its parent's.
        """
        if self.pid != os.getpid() or not self._first():
            return
        _current.pop(id(self), None)
        self._drop_placeholders()
        _remember(self.variables)
        holding.hide(self._token)
        if self._pending.future.done():  # our connection was given up, the devices were not
            self._connect()
        self._client.release(self.begun.job_id, self.begun.attempt, failed=False)
        waits = wait and self._can_wait()
        if waits:
            with contextlib.suppress(CancelledError):  # somebody had cancelled it meanwhile
                self._client.wait_for_end(self._pending)
        self._teller.step(f"released {self.begun.device}")
        if waits:
            self._warn_of_contexts()

    def _can_wait(self) -> bool:
        """Not in a callback of a future: its thread is the one that would hear the answer."""
        try:
            self._client.check_can_wait()
        except RuntimeError:
            return False
        return True

    def _first(self) -> bool:
        with self._letting_go:
            first, self._gone = not self._gone, True
            return first

    def _drop_placeholders(self) -> None:
        release: Callable[[Any], None] | None = getattr(self._placeholder, "release", None)
        try:
            while self.kept:
                if release is None:
                    self.kept.pop()
                else:
                    release(self.kept.pop())
        except Exception as error:
            self.kept.clear()
            self._teller.warn(f"a placeholder could not be released: {error}")

    def _connect(self) -> None:
        try:
            self._client.connect()
        except GrnError as error:
            self._teller.warn(
                f"{self.begun.device} stays leased until this process ends: {error}"
            )

    def _ended(self) -> None:
        """The broker says that the lease is over, or is gone itself for too long."""
        if not self._gone and self.pid == os.getpid():
            error = self._pending.future.cancelled() or self._pending.future.exception()
            why = "it was cancelled" if error is True else str(error or "the broker ended it")
            self._teller.warn(
                f"the lease of {self.begun.device} is over though it was not released: {why}. "
                f"Others may get the device now: release it, and acquire anew"
            )

    def _warn_of_contexts(self) -> None:
        """Say where letting go is impossible: a context stays until its process ends."""
        if VISIBLE not in self.variables:
            return
        keeping = backends.contexts()
        who = " and ".join(keeping) if keeping else "it" if self._is_still_there() else ""
        if who:
            self._teller.warn(
                f"{self.begun.device} is released, but this process still uses it ({who} keeps "
                f"memory there): nobody else gets it whole before the process ends. Use the "
                f"GPU in a child process, and let that end"
            )

    def _is_still_there(self) -> bool:
        try:
            rows = self._client.ask(AskDevices(), DevicesAre).rows
        except GrnError:
            return False
        indices = self.begun.indices
        return any(
            one.pid == self.pid and row.facts.kind == "nvml" and row.facts.index in indices
            for row in rows
            for one in row.processes
        )


_current: dict[int, Held] = {}
# The devices of a lease under which CUDA was first used: it shows no others from then on.
_fixed: tuple[str, ...] = ()
_dropped: "queue.SimpleQueue[Held] | None" = None
_starting = threading.Lock()


def _remember(variables: Mapping[str, str]) -> None:
    global _fixed
    if VISIBLE in variables and not _fixed and backends.initialised():
        _fixed = tuple(variables[VISIBLE].split(","))


def fixed_devices() -> tuple[str, ...]:
    """The uuids of the only devices that CUDA shows to this process, as far as we know."""
    return _fixed


def dropper() -> Callable[[Held], None]:
    """Give a function that lets go of a lease, may be called anywhere and returns at once."""
    global _dropped
    with _starting:
        if _dropped is None:
            _dropped = queue.SimpleQueue()
            threading.Thread(
                target=_let_dropped_go, args=(_dropped,), name="grn-leases", daemon=True
            ).start()
        return _dropped.put


def _let_dropped_go(dropped: "queue.SimpleQueue[Held]") -> None:
    while True:
        dropped.get().let_go(wait=True)


def _let_go_at_exit() -> None:
    """Let go before the client waits for whatever has not ended: it was made before this."""
    atexit.unregister(_let_all_go)
    atexit.register(_let_all_go)


def _let_all_go() -> None:
    for held in list(_current.values()):
        held.let_go(wait=False)


def _after_fork() -> None:
    """The leases are the parent's, and so is the thread."""
    global _dropped, _fixed, _starting
    _starting = threading.Lock()
    _dropped = None
    _fixed = ()
    _current.clear()


os.register_at_fork(after_in_child=_after_fork)
