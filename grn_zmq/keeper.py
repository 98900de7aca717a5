"""The keeper: a tiny parent of one job process that proves the whole tree dead.

It is a child subreaper, so whatever the job leaves behind becomes its child, and reaping to
the end (ECHILD) is the proof that nothing is left. It ends with the worker: the end of the
control socket means the worker is gone, and then the tree goes too.

It must not be able to raise: a keeper that dies leaves its tree to the worker. Standard
library only, so that a keeper stays small; the control messages are those of `channel`.

    worker -> keeper    {"signal": n} to the job's process group, {"kill": true} to the tree
    keeper -> worker    {"pid": n} once the job is set up, {"exited": true, ...} at the end
"""

import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection
from typing import Final, NoReturn

from . import channel

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
# Exit status of a process whose own machinery failed, not its user's (EX_SOFTWARE).
BROKEN_STATUS: Final = 70
# A killed process needs a moment to become reapable; one in the kernel may need long.
SWEEP_PAUSES_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)

_libc = ctypes.CDLL(None, use_errno=True)


def keep(ctl: socket.socket, job_body: Callable[[], NoReturn]) -> NoReturn:
    """Become the keeper of a forked job process that runs `job_body`; never returns."""
    try:
        wake_fd, wake_write_fd = _become_keeper()
        ready_fd, ready_write_fd = os.pipe()
        keeper_pid = os.getpid()
        pid = os.fork()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(BROKEN_STATUS)
    if pid == 0:
        _run_job(job_body, ctl, keeper_pid, ready_write_fd, [wake_fd, wake_write_fd, ready_fd])
    family = _Family(pid)
    try:
        close_others({ctl.fileno(), wake_fd, wake_write_fd, ready_fd})
        _watch(ctl, family, wake_fd, ready_fd)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _finish(ctl, family)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process.

    Raises:
        OSError: The kernel refused.
    """
    unused = ctypes.c_ulong(0)
    arguments = (ctypes.c_int(option), ctypes.c_ulong(value), unused, unused, unused)
    if _libc.prctl(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def flush_c_streams() -> None:
    """Write out what C code of this process printed and still buffers."""
    _libc.fflush(None)


def close_others(wanted: Collection[int]) -> None:
    """Close every descriptor above the standard three that is not wanted."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    channel.close_all(fd for fd in found if fd > 2 and fd not in wanted)


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process, ended ones among them."""
    return _children_lookup()(pid)


def descendants(root: int) -> list[int]:
    """Return the processes below one, as far as they can be seen at this moment."""
    lookup = _children_lookup()
    found: list[int] = []
    todo = [root]
    while todo:
        children = lookup(todo.pop())
        found += children
        todo += children
    return found


def _children_lookup() -> Callable[[int], list[int]]:
    own = os.getpid()
    if os.path.exists(f"/proc/{own}/task/{own}/children"):
        return _read_children
    table = _children_by_parent()
    return lambda pid: table.get(pid, [])


def _read_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
    except OSError:
        pass  # it ended while we looked
    return found


def _children_by_parent() -> dict[int, list[int]]:
    """Read all of /proc, for kernels without the `children` files."""
    table: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        table.setdefault(parent, []).append(int(name))
    return table


class _Family:
    """The job process and all that came from it."""

    def __init__(self, job_pid: int) -> None:
        self.job_pid = job_pid
        self.wait_status: int | None = None
        self.max_rss_bytes = 0
        self.left_over: set[int] = set()

    def reap(self) -> bool:
        """Collect all that ended; False once no child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.job_pid:
                self.wait_status = status
                self.max_rss_bytes = usage.ru_maxrss * 1024

    def sweep(self) -> None:
        """Kill everything below this process until nothing is left."""
        turn = 0
        while self.reap():
            for pid in descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)
                if pid != self.job_pid:
                    self.left_over.add(pid)
            time.sleep(SWEEP_PAUSES_S[min(turn, len(SWEEP_PAUSES_S) - 1)])
            turn += 1

    def signal(self, number: int) -> None:
        """Signal the job's process group."""
        if self.wait_status is not None:
            return
        try:
            os.killpg(self.job_pid, number)
        except OSError:
            send_signal(self.job_pid, number)

    def exit_message(self) -> dict[str, object]:
        code = None if self.wait_status is None else os.waitstatus_to_exitcode(self.wait_status)
        return {
            "exited": True,
            "status": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "max_rss_bytes": self.max_rss_bytes,
            "left_over": len(self.left_over),
        }


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _become_keeper() -> tuple[int, int]:
    """Set up this process; returns both ends of the pipe that tells of ended children."""
    # The worker's death is told by the control socket, and a keeper must outlive it by the
    # time its sweep takes: no death signal of its own.
    prctl(PR_SET_PDEATHSIG, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        os.setsid()
    except PermissionError:
        pass  # already the leader of a session
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    wake_fd, wake_write_fd = os.pipe()
    os.set_blocking(wake_fd, False)
    os.set_blocking(wake_write_fd, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake_write_fd, warn_on_full_buffer=False)
    return wake_fd, wake_write_fd


def _run_job(
    job_body: Callable[[], NoReturn],
    ctl: socket.socket,
    keeper_pid: int,
    ready_fd: int,
    unwanted: list[int],
) -> NoReturn:
    """Be the job process: it dies with its keeper, leads its own session, and says so."""
    try:
        signal.set_wakeup_fd(-1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper_pid:
            os._exit(BROKEN_STATUS)
        os.setsid()
        channel.close_all([ctl.detach(), *unwanted])
        reset_signals()
        os.write(ready_fd, b"r")
        os.close(ready_fd)
        job_body()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(BROKEN_STATUS)


def reset_signals() -> None:
    """Give every signal the handling a fresh interpreter has, and block none."""
    ignored_by_python = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # None: set from C, as faulthandler does when the client's flags ask for it.
        if signal.getsignal(number) is not None:
            fresh = signal.SIG_IGN if number in ignored_by_python else signal.SIG_DFL
            signal.signal(number, fresh)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _watch(ctl: socket.socket, family: _Family, wake_fd: int, ready_fd: int) -> None:
    """Obey the worker and reap, until the job process or the worker is gone."""
    poller = select.poll()
    for fd in (ctl.fileno(), wake_fd, ready_fd):
        poller.register(fd, select.POLLIN)
    early: list[int] | None = []
    while family.wait_status is None:
        for fd, _ in poller.poll():
            if fd == wake_fd:
                os.read(wake_fd, 4096)
            elif fd == ready_fd:
                poller.unregister(ready_fd)
                if os.read(ready_fd, 1):
                    channel.send(ctl, {"pid": family.job_pid})
                    for number in early or ():
                        family.signal(number)
                    early = None
            elif not _obey(ctl, family, early):
                return
        family.reap()


def _obey(ctl: socket.socket, family: _Family, early: list[int] | None) -> bool:
    """Carry out one message; False if the worker is gone.

    Args:
        early: Where to keep signals for a job that is not set up yet; None if it is.
    """
    try:
        packet = channel.receive(ctl)
    except ValueError:
        return True
    if packet is None:
        return False
    channel.close_all(packet.fds)
    number = packet.header.get("signal")
    if packet.header.get("kill"):
        family.sweep()
    elif isinstance(number, int) and number in signal.valid_signals():
        family.signal(number) if early is None else early.append(number)
    return True


def _finish(ctl: socket.socket, family: _Family) -> NoReturn:
    """Sweep what is left, tell the worker, and end."""
    try:
        family.sweep()
        channel.send(ctl, family.exit_message())
    except BaseException:
        pass  # nobody is left to be told
    os._exit(0)
