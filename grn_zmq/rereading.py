"""Files of arguments that stay mapped in the job process, for the next run to read.

A client writes large arguments into the same few files again and again (`shelf.py`), and to map
a file anew takes longer than to copy it. A mapping is kept if nothing of the run still uses it
and if the run has not changed it: changes are private to this process, and would hide what the
client writes next. The kernel tells which pages were changed.

While a run reads a file it has a shared lock on it. Between runs it has none, so that the
client may fill the file.
"""

import fcntl
import mmap
import os
import sys
from pathlib import Path
from typing import Final

from .copying import MAPPED_BYTES
from .pages import pages_of
from .parcels import Parcels, map_parcel, open_parcel

# More is not kept mapped by a process that is idle.
MOST_BYTES: Final = 1 << 30
# What a name of ours, and a call that asks for it, add to the references of an object.
_OWN_REFERENCES: Final = 2
File = tuple[int, int]


class Reading:
    """One mapped file."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        """Map it, and take over the descriptor."""
        self.file = _file_of(fd)
        self.size_bytes = size_bytes
        self.in_use = True
        self.resident_bytes = 0
        self._fd = fd
        self._mapped = mmap.mmap(fd, size_bytes, access=mmap.ACCESS_COPY)

    def view(self) -> memoryview:
        return memoryview(self._mapped)

    def take(self, path: Path) -> bool:
        """Lock it for a run; False if it has changed hands meanwhile."""
        if not self._ours:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        self.in_use = _file_at(path) == self.file
        return self.in_use

    def put_back(self) -> bool:
        """Let its writer have it, and keep it mapped; False if it must not be kept."""
        if sys.getrefcount(self._mapped) > _OWN_REFERENCES or not self._ours:
            return False
        pages = pages_of(self._mapped)
        if pages is None or pages.changed:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.resident_bytes = pages.resident_bytes
        self.in_use = False
        return True

    def close(self) -> None:
        """Forget it here; who still uses the mapping keeps it, and its lock."""
        if self._ours:
            os.close(self._fd)
        else:
            _lost.append(self)  # the mapping has a descriptor of its own, which may be lost too

    @property
    def _ours(self) -> bool:
        """Whether the descriptor is still of this file: the user's code may close any."""
        return _file_of(self._fd) == self.file


_lost: list[Reading] = []


class Readings:
    """The files that this process has mapped, those used last at the end."""

    def __init__(self) -> None:
        self._kept: dict[File, Reading] = {}

    @property
    def resident_bytes(self) -> int:
        """What they take of this process's memory between two runs."""
        return sum(one.resident_bytes for one in self._kept.values())

    def read(self, parcels: Parcels, token: str) -> memoryview:
        """Give the bytes of a parcel, for one run, as `Parcels.read` does.

        Raises:
            FileNotFoundError: It was let go.
        """
        path = parcels.path(token)
        file = _file_at(path)
        if file is not None and (reading := self._kept.pop(file, None)):
            if reading.take(path):
                self._kept[file] = reading
                return reading.view()
            reading.close()
        fd, size_bytes = open_parcel(path)
        if not MAPPED_BYTES <= size_bytes <= MOST_BYTES:
            return map_parcel(fd, size_bytes)
        reading = Reading(fd, size_bytes)
        assert reading.file is not None
        self._kept[reading.file] = reading
        return reading.view()

    def tidy(self) -> None:
        """The run is over: keep what the next may read."""
        for file, reading in list(self._kept.items()):
            if reading.in_use and not reading.put_back():
                self._drop(file)
        while sum(one.size_bytes for one in self._kept.values()) > MOST_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, file: File) -> None:
        self._kept.pop(file).close()


def _file_at(path: Path) -> File | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _file_of(fd: int) -> File | None:
    try:
        facts = os.fstat(fd)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
