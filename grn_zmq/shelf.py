"""Files in memory that this process fills again once their readers are done.

Memory that is had anew costs several times what copying into it does: the kernel clears each
page, maps it, and takes it back at the end. So a writer keeps its last files, mapped, under
names of its own. A parcel is a second name of such a file. Its readers know only that one; when
it is gone and nobody has the file open or mapped, which the kernel tells, the file is free.

A shelf is guarded by a lock, so that files of a dead process can be told: see `parcels.py`.
"""

import contextlib
import errno
import fcntl
import math
import mmap
import os
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

Buffer = bytes | bytearray | memoryview

# What a process keeps at most, and in how many files: each takes two descriptors.
KEPT_BYTES: Final = 512 << 20
KEPT_FILES: Final = 128
# How long they are kept by who does not use them.
IDLE_S: Final = 10.0
# Those used longest ago come first: if none of these is free, others hardly are.
_LOOKED_AT: Final = 8
# Between two steps signals are heard and other threads go on.
_STEP_BYTES: Final = 4 << 20
_PAGE_BYTES: Final = mmap.PAGESIZE
# Linux 5.14; before that pages are mapped when they are written.
_MADV_POPULATE_WRITE: Final = 23


_lost: list["ShelfFile"] = []


class ShelfFile:
    """A mapped file, under a name that only its owner knows."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Make it, with all of its memory.

        Raises:
            OSError: There is no room; nothing of it is left.
        """
        self.path = path
        self.used_at = 0.0
        self.size_bytes = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            facts = os.fstat(self._fd)
            self._identity = facts.st_dev, facts.st_ino
            self._map()
        except BaseException:
            os.close(self._fd)
            path.unlink(missing_ok=True)
            raise

    def _map(self) -> None:
        for at in range(0, self.size_bytes, _STEP_BYTES):
            os.posix_fallocate(self._fd, at, min(_STEP_BYTES, self.size_bytes - at))
        # Whoever opens it while we ask for a lease makes the kernel send this: harmless.
        fcntl.fcntl(self._fd, fcntl.F_SETSIG, signal.SIGURG)
        self._mapped = mmap.mmap(self._fd, self.size_bytes)
        with contextlib.suppress(OSError, ValueError):
            for at in range(0, self.size_bytes, _STEP_BYTES):
                step = min(_STEP_BYTES, self.size_bytes - at)
                self._mapped.madvise(_MADV_POPULATE_WRITE, at, step)
        self._view = memoryview(self._mapped)

    def fits(self, size_bytes: int) -> bool:
        """Whether it is large enough, and not much larger."""
        return size_bytes <= self.size_bytes <= max(2 * size_bytes, _PAGE_BYTES)

    @property
    def free(self) -> bool:
        """Whether it has no other name and nobody else has it open or mapped."""
        if self._links() != 1:
            return False
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return False
        fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True

    def _links(self) -> int:
        """How many names it has; 0 if the user's code has closed our descriptor."""
        try:
            facts = os.fstat(self._fd)
        except OSError:
            return 0
        return facts.st_nlink if (facts.st_dev, facts.st_ino) == self._identity else 0

    def fill(self, pieces: Sequence[Buffer]) -> None:
        """Write these in a row, from the beginning."""
        at = 0
        for piece in pieces:
            with memoryview(piece) as data:
                for start in range(0, len(data), _STEP_BYTES):
                    step = data[start : start + _STEP_BYTES]
                    self._view[at : at + len(step)] = step
                    at += len(step)

    def close(self, *, unlink: bool = True) -> None:
        """Give up the name and the mapping; who reads it under another name goes on."""
        still_ours = self._links() > 0
        if unlink:
            self.path.unlink(missing_ok=True)
        if not still_ours:
            _lost.append(self)  # the mapping has a descriptor of its own, which may be lost too
            return
        self._view.release()
        self._mapped.close()
        os.close(self._fd)


class Shelf:
    """The files of this process in one directory."""

    def __init__(self, directory: Path, hold: Callable[[str], int]) -> None:
        """Keep nothing yet.

        Args:
            hold: Takes the lock by which others know that the owner of a name lives.
        """
        self._directory = directory
        self._hold = hold
        self._owner = ""
        self._owner_lock = -1
        self._lock = threading.Lock()
        self._files: deque[ShelfFile] = deque()
        self._kept_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """What is mapped here at present."""
        return self._kept_bytes

    def write(self, pieces: Sequence[Buffer], size_bytes: int, name: str) -> bool:
        """Give these a name in the directory; False if they must be written otherwise."""
        if not 0 < size_bytes <= KEPT_BYTES:
            return False
        try:
            file = self._taken(size_bytes) or self._made(size_bytes)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self.clear()
            return False
        try:
            file.fill(pieces)
            os.link(file.path, self._directory / name)
        except FileNotFoundError:  # somebody has cleaned up behind us
            file.close()
            self.clear()
            return False
        except BaseException:
            file.close()
            raise
        self._put(file)
        return True

    def clear(self, unused_since: float = math.inf) -> None:
        """Give back all files, or those that were used before that time."""
        over: list[ShelfFile] = []
        with self._lock:
            while self._files and self._files[0].used_at < unused_since:
                over.append(self._oldest())
        for file in over:
            file.close()

    def forget(self) -> None:
        """After a fork: what is here is the parent's."""
        files, self._files = self._files, deque()
        self._lock, self._kept_bytes = threading.Lock(), 0
        for file in files:
            file.close(unlink=False)
        if self._owner_lock >= 0:
            os.close(self._owner_lock)
        self._owner, self._owner_lock = "", -1

    def _taken(self, size_bytes: int) -> ShelfFile | None:
        """Give a file that is free and fits."""
        with self._lock:
            fitting = (one for one in self._files if one.fits(size_bytes))
            for file in islice(fitting, _LOOKED_AT):
                if file.free:
                    self._files.remove(file)
                    self._kept_bytes -= file.size_bytes
                    return file
        return None

    def _made(self, size_bytes: int) -> ShelfFile:
        with self._lock:
            if not self._owner:
                owner = uuid.uuid4().hex
                self._owner_lock = self._hold(owner)
                self._owner = owner
        return ShelfFile(self._directory / f"kept-{self._owner}-{uuid.uuid4().hex}", size_bytes)

    def _put(self, file: ShelfFile) -> None:
        """Keep it, instead of those used longest ago if need be."""
        over: list[ShelfFile] = []
        with self._lock:
            file.used_at = time.monotonic()
            self._files.append(file)
            self._kept_bytes += file.size_bytes
            while self._kept_bytes > KEPT_BYTES or len(self._files) > KEPT_FILES:
                over.append(self._oldest())
        for one in over:
            one.close()

    def _oldest(self) -> ShelfFile:
        file = self._files.popleft()
        self._kept_bytes -= file.size_bytes
        return file


_shelves: dict[Path, Shelf] = {}


def shelf_in(directory: Path, hold: Callable[[str], int]) -> Shelf:
    """The shelf of this process in a directory."""
    return _shelves.setdefault(directory, Shelf(directory, hold))


def clear_shelves() -> None:
    """Give back what this process keeps for later."""
    for shelf in list(_shelves.values()):
        shelf.clear()


def tidy_shelves() -> None:
    """Give back what was kept for long and not used."""
    for shelf in list(_shelves.values()):
        shelf.clear(unused_since=time.monotonic() - IDLE_S)


def kept_bytes() -> int:
    """What this process keeps for later."""
    return sum(shelf.kept_bytes for shelf in list(_shelves.values()))


def _after_fork() -> None:
    for shelf in _shelves.values():
        shelf.forget()


os.register_at_fork(after_in_child=_after_fork)
