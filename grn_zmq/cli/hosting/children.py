"""A child of `grn start`: started, started again when it dies, ended."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from loguru import logger

from ...backoff import Backoff
from ...errors import GrnError

# What the kernel takes to end a process that it was told to kill, and then some.
KILLED_S: Final = 5.0


class CannotStart(GrnError):
    """The kernel gives us no process."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"the {what} cannot be started: {why}. "
            f"Allow more processes (ulimit -u), or make memory free"
        )


class Child:
    """The broker or the fosterer of the workers."""

    def __init__(
        self, what: str, options: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> None:
        """Prepare a start.

        Args:
            options: What it is told, where anybody on the machine may read it.
            variables: What it is told beside that; others cannot see it.
        """
        self.what = what
        self._options = list(options)
        self._variables = dict(variables or {})
        self._backoff = Backoff()
        self._started_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self.start_at: float | None = None

    def start(self, extra: Sequence[str] = (), keep: Sequence[int] = ()) -> None:
        """Start it; `extra` options and descriptors are for this time only.

        Raises:
            CannotStart: There are too many processes, or too little memory.
        """
        self._close()
        self.start_at = None
        self._started_at = time.monotonic()
        # A session of its own: Ctrl-C at the terminal reaches it through us, in order.
        words = [sys.executable, "-m", f"grn_zmq.{self.what}", "--supervisor", str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [*words, *extra, *self._options],
                env={**os.environ, **self._variables},
                stdin=subprocess.DEVNULL,
                pass_fds=tuple(keep),
                start_new_session=True,
            )
        except OSError as error:
            raise CannotStart(self.what, error.strerror or str(error)) from error
        self._pidfd = os.pidfd_open(self._process.pid)

    @property
    def watched(self) -> list[int]:
        """The descriptor that becomes readable at its end, if it lives."""
        return [self._pidfd] if self.alive else []

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def status(self) -> int | None:
        """How it ended; None while it lives."""
        return None if self._process is None else self._process.poll()

    def start_again(self) -> None:
        """Have it started once its pause is over; say so."""
        pause_s = self._backoff.pause_s(time.monotonic() - self._started_at)
        self.start_at = time.monotonic() + pause_s
        facts = {"which": self.what, "status": self.status, "pause_s": pause_s}
        logger.bind(facts=facts).error("a process died; it is started again")

    def terminate(self) -> None:
        if self._process is not None and self.alive:
            self._process.terminate()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after waiting so long for it at most."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it at once, with its own children: jobs end with their worker."""
        if self._process is None or not self.alive:
            return
        below = [_pidfd(pid) for pid in _children(self._process.pid)]
        self._process.kill()
        self._process.wait()
        for pidfd in below:
            if pidfd >= 0:
                _kill(pidfd)

    def _close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _children(pid: int) -> list[int]:
    try:
        return [
            int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [], KILLED_S)
    except ProcessLookupError:
        pass  # it was faster
    finally:
        os.close(pidfd)
