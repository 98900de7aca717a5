"""A file that a process keeps locked until it ends, for those who cannot see its pid.

The lock is a record lock: of that process alone, not of its forked children, and the kernel
lets go of it whatever happens. It can be seen from every pid namespace.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

_held: Final[dict[Path, int]] = {}


def hold_life(path: Path) -> None:
    """Lock a file for the rest of this process's life; once it is, nothing more happens.

    Where there is no directory for it, or no room, others have to do without.
    """
    if path in _held and _is_in_place(path, _held[path]):
        return
    with contextlib.suppress(OSError):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # One before it, whose file was removed, stays open: somebody may watch that one.
        _held[path] = fd = os.open(path, flags, 0o600)
        fcntl.lockf(fd, fcntl.LOCK_EX)


def _is_in_place(path: Path, fd: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(fd).st_ino
    except OSError:
        return False


def watch_life(path: Path) -> int | None:
    """Give a descriptor by which `is_held` tells; None if nobody has such a file."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def is_held(fd: int) -> bool:
    """Whether the process that has locked the file lives."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # locked; or no lock to be had, which proves nothing
        return True
    fcntl.lockf(fd, fcntl.LOCK_UN)
    return False


def shows_life(path: Path) -> bool:
    """Whether there is such a file, and the process that has locked it lives."""
    fd = watch_life(path)
    if fd is None:
        return False
    try:
        return is_held(fd)
    finally:
        os.close(fd)
