"""The keeper of a job process as its worker holds it, whoever its parent is."""

import os
import select
import signal
import subprocess
from typing import Protocol


class Keeper(Protocol):
    """What a worker can do to a keeper; a `subprocess.Popen` is one."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it is dead, and reap it.

        Raises:
            subprocess.TimeoutExpired: It still lives.
        """
        ...

    def send_signal(self, signum: int, /) -> None:
        """Signal it, if it lives."""
        ...

    def kill(self) -> None:
        """Kill it, if it lives."""
        ...


class ForkedKeeper:
    """A keeper that a zygote has forked: no child of ours, unless the zygote died."""

    def __init__(self, pid: int, pidfd: int) -> None:
        """Take over the descriptor, by which it is known even if its pid is used again."""
        self.pid = pid
        self._pidfd = pidfd

    @property
    def lives(self) -> bool:
        return self._pidfd >= 0 and not readable(self._pidfd, 0)

    def wait(self, timeout: float | None = None) -> int:
        """See `Keeper.wait`; its status is the zygote's to know, so 0 is returned."""
        if self._pidfd < 0:
            return 0
        if not readable(self._pidfd, timeout):
            raise subprocess.TimeoutExpired("keeper", timeout or 0.0)
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pass  # its zygote has reaped it
        os.close(self._pidfd)
        self._pidfd = -1
        return 0

    def send_signal(self, signum: int, /) -> None:
        if self._pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, signum)
        except OSError:
            pass  # it has just ended

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def readable(fd: int, seconds: float | None) -> bool:
    """Wait until something can be read; a descriptor of any number."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))
