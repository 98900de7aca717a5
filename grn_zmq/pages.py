"""What the kernel tells of the pages of a private mapping: how many are there, and changed."""

import ctypes
import mmap
import os
from typing import Final, NamedTuple

# An entry of /proc/self/pagemap has its flags in the last byte.
_ENTRY_BYTES: Final = 8
_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20


class Pages(NamedTuple):
    """Of one mapping: how much is resident, and whether any page is a changed copy."""

    resident_bytes: int
    changed: bool


def pages_of(mapped: mmap.mmap) -> Pages | None:
    """Look at all pages of a mapping; None if that cannot be told here."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    end = start + -(-len(mapped) // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(fd, start, end)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read(fd: int, start: int, end: int) -> Pages | None:
    """Read what there is to know of each page."""
    first, last = (at // mmap.PAGESIZE * _ENTRY_BYTES for at in (start, end))
    entries = os.pread(fd, last - first, first)
    if len(entries) != last - first:
        return None
    flags = entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES]
    kinds = set(flags)
    resident = sum(flags.count(one) for one in kinds if one & _PRESENT)
    # Whatever is there and not of the file is a copy that was written to.
    changed = any(one & (_PRESENT | _SWAPPED) and not one & _OF_FILE for one in kinds)
    return Pages(resident * mmap.PAGESIZE, changed)
