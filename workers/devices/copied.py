"""What a forked process has copied of the memory that it inherited from its zygote.

Such pages are in its resident bytes from the beginning, so neither these nor their peak grow
when they become its own. Only what is private to it tells, which is dear to read; but each
copy is a fault, and those are counted. So who has few faults need not be looked at.
"""

import time
from typing import Final, NamedTuple

from ..proctree import PAGE_BYTES, minor_faults, resident_and_private
from .device import Tree

# Who inherited less than this cannot copy more, and what it copies is not worth a look: a
# job process without imports of its user inherits half of it.
LEAST_INHERITED_BYTES: Final = 32 << 20
NOTABLE_BYTES: Final = 8 << 20
# What reading may take of one core: a fifth.
_REST_PER_READ: Final = 4


class _Reading(NamedTuple):
    most_bytes: int
    copied_bytes: int
    until: float


class Copied:
    """The last readings, by process."""

    def __init__(self) -> None:
        self._readings: dict[int, _Reading] = {}

    def bytes_of(self, tree: Tree) -> int:
        """Return what the job process has copied, as of now or of a moment ago."""
        most_bytes = most_copied_bytes(tree)
        if most_bytes < NOTABLE_BYTES:
            return 0
        now = time.monotonic()
        last = self._readings.get(tree.main_pid)
        if last and (now < last.until or most_bytes - last.most_bytes < NOTABLE_BYTES):
            return last.copied_bytes
        copied_bytes = read_copied_bytes(tree, most_bytes)
        read_at = time.monotonic()
        until = read_at + _REST_PER_READ * (read_at - now)
        self._readings[tree.main_pid] = _Reading(most_bytes, copied_bytes, until)
        return copied_bytes

    def keep(self, pids: set[int]) -> None:
        """Forget all but these processes."""
        if self._readings.keys() - pids:
            self._readings = {pid: r for pid, r in self._readings.items() if pid in pids}


def most_copied_bytes(tree: Tree) -> int:
    """Return more than the job process can have copied, cheaply."""
    if tree.faults is None or tree.baseline_bytes < LEAST_INHERITED_BYTES:
        return 0
    faults = minor_faults(tree.main_pid) - tree.faults
    return min(tree.baseline_bytes, max(0, faults) * PAGE_BYTES)


def read_copied_bytes(tree: Tree, most_bytes: int) -> int:
    """Return what it has copied; what it has of its own beyond that is its growth."""
    resident, private = resident_and_private(tree.main_pid)
    grown = max(0, resident - tree.baseline_bytes)
    before = (tree.faults or 0) * PAGE_BYTES
    return min(most_bytes, max(0, private - grown - before))
