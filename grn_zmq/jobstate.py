"""What a job process looks like from within: its streams, directory, children and memory."""

import os
import resource
import sys

from . import keeper
from .peaks import NEGLIGIBLE_BYTES, reset_peak

# Where the children of our keeper are listed; kept open, for it is asked after each call.
_siblings: list[int] = []


def file_of(fd: int) -> tuple[int, int] | None:
    """What tells the file behind a descriptor from all others; None if it is closed."""
    try:
        facts = os.fstat(fd)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def take_streams(fds: list[int]) -> list[tuple[int, int]]:
    """Make the run's pipes standard output and error; return what tells them apart."""
    for target, fd in zip((1, 2), fds, strict=True):
        os.dup2(fd, target)
        os.close(fd)
    return streams()


def streams() -> list[tuple[int, int]]:
    """Say what files standard output and error are; nothing if Python writes elsewhere."""
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return []
    try:
        return [(stat.st_dev, stat.st_ino) for stat in (os.fstat(1), os.fstat(2))]
    except OSError:
        return []


def silence_streams() -> None:
    """Send what is written between two runs nowhere: it belongs to neither."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_only_child() -> bool:
    """Whether nobody else lives below our keeper: a daemon that a job left is its child now."""
    if not _siblings:
        parent = os.getppid()
        try:
            fd = os.open(f"/proc/{parent}/task/{parent}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # this kernel lists none
            return keeper.children_of(parent) == [os.getpid()]
        _siblings.append(fd)
    try:
        return os.pread(_siblings[0], 64, 0).split() == [b"%d" % os.getpid()]
    except OSError:  # the body of a run has closed it
        _siblings.clear()
        return False


def peak_bytes() -> int:
    """The most that this process had since its peak was last reset.

    Of a process that was forked and has executed nothing this is VmHWM, without the cost of
    having all of `/proc/self/status` written.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def begin_peak(*, exactly: bool) -> None:
    """Let the peak begin anew, so that the next run's is its own.

    Args:
        exactly: Else it may be that of an earlier run, if that was hardly more than this
            process has now: to reset it takes longer than many a run.
    """
    if exactly or peak_bytes() - resident_bytes() > NEGLIGIBLE_BYTES:
        reset_peak()


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ignore_signal(number: int, frame: object) -> None:
    """Do nothing. Unlike SIG_IGN this is not inherited by what the job starts."""


def faults() -> int:
    """How many pages were touched so far that had to be made or copied."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
