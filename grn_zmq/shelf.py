"""Files in memory that this process fills again once their readers are done.

Memory that is had anew costs several times what copying into it does: the kernel clears each
page, maps it, and takes it back at the end. So a writer keeps its last files, mapped, under
names of its own. A parcel is a second name of such a file. Its readers know only that one; when
it is gone and none of them has the file locked, as all do while they use it, it is free. All
locks are such that the kernel takes them from the dead.

A shelf is guarded by a lock, so that files of a dead process can be told: see `parcels.py`.
"""

import contextlib
import fcntl
import math
import mmap
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from .copying import MAPPED_BYTES, STEP_BYTES, Buffer, copy
from .paths import make_private

# What a process keeps at most, and in how many files: each takes a descriptor or two.
KEPT_BYTES: Final = 1 << 30
# Of all the memory that there is for files.
KEPT_SHARE: Final = 1 / 8
KEPT_FILES: Final = 128
# How long they are kept by who does not use them.
IDLE_S: Final = 10.0
# Those used longest ago come first: if none of these is free, others hardly are.
_LOOKED_AT: Final = 8


_lost: list["ShelfFile"] = []


class ShelfFile:
    """A file under a name that only its owner knows; mapped if it is filled again."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Make it, without memory yet."""
        self.path = path
        self.used_at = 0.0
        self.size_bytes = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._view: memoryview | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        facts = os.fstat(self._fd)
        self._identity = facts.st_dev, facts.st_ino

    @property
    def mapped_bytes(self) -> int:
        """What of the memory of this process it is."""
        return 0 if self._view is None else self.size_bytes

    def fits(self, size_bytes: int) -> bool:
        """Whether it is large enough, and not much larger."""
        return size_bytes <= self.size_bytes <= max(2 * size_bytes, mmap.PAGESIZE)

    @property
    def free(self) -> bool:
        """Whether it has no other name than ours and nobody reads it.

        Who has opened it under a name that is gone, and locks it only now, looks for the name
        afterwards and gives up.
        """
        if not self._is_ours() or not self._has_only_our_name():
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return True

    def _has_only_our_name(self) -> bool:
        """Whether it has one name, and that is ours: somebody may have removed it."""
        try:
            facts = self.path.lstat()
        except OSError:
            return False
        return facts.st_nlink == 1 and (facts.st_dev, facts.st_ino) == self._identity

    def _is_ours(self) -> bool:
        """Whether the descriptor is still of this file: the user's code may close any."""
        try:
            facts = os.fstat(self._fd)
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._identity

    def fill(self, pieces: Sequence[Buffer]) -> None:
        """Write these in a row, from the beginning.

        Raises:
            OSError: There is no room.
        """
        first = not self.used_at
        if first:
            os.ftruncate(self._fd, self.size_bytes)
        elif self._view is None and self.size_bytes >= MAPPED_BYTES:
            populated = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._mapped = mmap.mmap(self._fd, self.size_bytes, flags=populated)
            self._view = memoryview(self._mapped)
        at = 0
        for piece in pieces:
            data = memoryview(piece)
            if self._view is not None:
                copy(self._view[at:], data)
            else:
                self._write(data, at)
            at += len(data)

    def _write(self, data: memoryview, at: int) -> None:
        """Write to what is small, or had only now: a mapping would have cleared it first."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._fd, data[done : done + STEP_BYTES], at + done)

    def close(self, *, unlink: bool = True) -> None:
        """Give up the name and the mapping; who reads it under another name goes on."""
        if unlink:
            self.path.unlink(missing_ok=True)
        if not self._is_ours():
            _lost.append(self)  # the mapping has a descriptor of its own, which may be lost too
            return
        if self._view is not None:
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
        self._kept_bytes = self._most_bytes = 0

    @property
    def mapped_bytes(self) -> int:
        """What is mapped here at present."""
        with self._lock:
            return sum(file.mapped_bytes for file in self._files)

    def write(self, pieces: Sequence[Buffer], size_bytes: int, name: str) -> bool:
        """Give these a name in the directory; False if they must be written otherwise."""
        try:
            if not 0 < size_bytes <= self._limit():
                return False
            file = self._taken(size_bytes) or self._made(size_bytes)
        except OSError:
            return False
        try:
            file.fill(pieces)
            os.link(file.path, self._directory / name)
        except OSError:  # no room; or somebody has cleaned up behind us
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
        if unused_since == math.inf:
            with contextlib.suppress(OSError):  # others have something there
                self._directory.rmdir()

    def forget(self) -> None:
        """After a fork: what is here is the parent's."""
        files, self._files = self._files, deque()
        self._lock, self._kept_bytes = threading.Lock(), 0
        for file in files:
            file.close(unlink=False)
        if self._owner_lock >= 0:
            os.close(self._owner_lock)
        self._owner, self._owner_lock = "", -1

    def _limit(self) -> int:
        if not self._most_bytes:
            room = os.statvfs(self._directory.parent)
            self._most_bytes = min(KEPT_BYTES, int(room.f_blocks * room.f_frsize * KEPT_SHARE))
        return self._most_bytes

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
        make_private(self._directory)  # of its parent the limit was taken, so that is there
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
            while self._kept_bytes > self._most_bytes or len(self._files) > KEPT_FILES:
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


def mapped_bytes() -> int:
    """What of the memory of this process is kept for later."""
    return sum(shelf.mapped_bytes for shelf in list(_shelves.values()))


def _after_fork() -> None:
    for shelf in _shelves.values():
        shelf.forget()


os.register_at_fork(after_in_child=_after_fork)
