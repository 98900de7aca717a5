"""Tells when watched processes are gone. The kernel knows, so nobody has to guess."""

import contextlib
import errno
import os
import select
import signal
import socket

from loguru import logger

from grn_zmq.processes import process_born


class Watching:
    """One epoll descriptor over the pidfds of all peers, and over our own signals."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._names: dict[int, str] = {}
        self._pidfds: dict[str, int] = {}
        self._gone: list[str] = []
        self._unwatched: dict[str, int] = {}
        self._wakeup, self._signalled = socket.socketpair()
        self._wakeup.setblocking(False)
        self._signalled.setblocking(False)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self.stopping = False

    def fileno(self) -> int:
        return self._epoll.fileno()

    def stop_on(self, *signals: signal.Signals) -> None:
        """Let these signals set `stopping` and wake the loop."""
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        for signum in signals:
            signal.signal(signum, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def watch(self, name: str, pid: int, born: int = 0) -> None:
        """Tell when this process is gone.

        Args:
            pid: 0 for one in another pid namespace: it lives as long as its connection.
            born: When it was started, if that is known: its pid may be another's by now.
        """
        if name in self._pidfds or not pid:
            return
        try:
            pidfd = os.pidfd_open(pid)
            if born and process_born(pid) != born:
                os.close(pidfd)
                raise ProcessLookupError(errno.ESRCH, "another process has its pid")
        except OSError as error:
            if error.errno == errno.ESRCH:
                logger.debug("a peer is gone before it could be watched")
                self._gone.append(name)
                with contextlib.suppress(BlockingIOError):  # then it is awake already
                    self._signalled.send(b"\0")
            else:
                self._go_without(name, pid, error)
            return
        self._names[pidfd] = name
        self._pidfds[name] = pidfd
        self._epoll.register(pidfd, select.EPOLLIN)

    def _go_without(self, name: str, pid: int, error: OSError) -> None:
        """Serve a process whose end we cannot learn, most likely for too many open files."""
        if not self._unwatched:
            facts = {"why": str(error), "watched": len(self._pidfds)}
            logger.bind(facts=facts).error(
                "cannot watch a peer: should it die, its jobs go on. Raise the limit of open "
                "files (ulimit -Hn)"
            )
        self._unwatched[name] = pid

    def unwatch(self, name: str) -> None:
        """Nobody wants to know any more."""
        self._unwatched.pop(name, None)
        pidfd = self._pidfds.pop(name, None)
        if pidfd is not None:
            del self._names[pidfd]
            self._epoll.unregister(pidfd)
            os.close(pidfd)

    def try_again(self) -> None:
        """Watch those that could not be watched when they came."""
        unwatched, self._unwatched = self._unwatched, {}
        for name, pid in unwatched.items():
            self.watch(name, pid)

    def take_gone(self) -> list[str]:
        """Give the names of processes that have ended since the last call."""
        gone, self._gone = self._gone, []
        for fd, _ in self._epoll.poll(0):
            if fd == self._wakeup.fileno():
                self._wakeup.recv(4096)
                continue
            name = self._names.pop(fd)
            del self._pidfds[name]
            self._epoll.unregister(fd)
            os.close(fd)
            gone.append(name)
        if gone:  # there is room for another now
            self.try_again()
        return gone

    def close(self) -> None:
        """Let go of everything."""
        signal.set_wakeup_fd(-1)
        for fd in self._names:
            os.close(fd)
        self._epoll.close()
        self._wakeup.close()
        self._signalled.close()


def is_stopped(pid: int) -> bool:
    """Whether a process lives but stands still, by Ctrl-Z or in a debugger."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "tT"
    except OSError:
        return False
