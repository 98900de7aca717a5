"""Giving memory back to the system after a crowd has left: the allocator alone keeps it."""

import ctypes
from typing import Final

# A connection takes some 30 KiB; below this many it is not worth the milliseconds.
CROWD: Final = 100


class Trimming:
    """Counts who has gone, and trims once it was a crowd."""

    def __init__(self) -> None:
        self._gone = 0
        # Only in glibc; others give memory back by themselves.
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def note_gone(self) -> None:
        self._gone += 1

    def tick(self) -> None:
        if self._gone >= CROWD and self._trim is not None:
            self._gone = 0
            self._trim(0)
