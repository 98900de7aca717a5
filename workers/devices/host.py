"""A share of this machine's memory, as a device.

What a job takes is the peak of its own process, which the kernel keeps, plus what that has
copied of memory it was forked with, plus what its other processes hold privately. A job resets
that peak when a run starts. Of a lease of several
devices each has an equal part of that.
"""

import os
import time
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from ..proctree import descendants, own_lineage, private_bytes, resident_and_peak, start_time
from .copied import NOTABLE_BYTES, Copied, most_copied_bytes, read_copied_bytes
from .device import DeviceInfo, DeviceUnreadable, Sample, Tree
from .memory import available_bytes
from .siblings import SiblingUse
from .slowly import Slowly

# Reading a process privately takes milliseconds: above this many, not at every sample.
MANY_PROCESSES: Final = 8


class _Use(NamedTuple):
    held_bytes: int
    level_bytes: int
    alive: bool
    processes: dict[int, int]


class HostDevice:
    """One of several devices that share the memory of this machine."""

    def __init__(self, index: int, *, count: int, total_bytes: int, sum_bytes: int) -> None:
        """Take a share.

        Args:
            count: How many devices share the machine.
            sum_bytes: What all of them have together.
        """
        self.info = DeviceInfo(
            index=index,
            name="host memory",
            uuid=f"host-{index}",
            total_bytes=total_bytes,
            kind="host",
            device_class="host",
        )
        self._sum_bytes = sum_bytes
        self._siblings = SiblingUse(count - 1)
        self._others: dict[int, Slowly[dict[int, int]]] = {}
        self._copied = Copied()

    def sample(self, trees: Mapping[str, Tree]) -> Sample:
        """Look at all trees and at what is left of the machine's memory."""
        uses = self._uses(trees)
        held = sum(use.held_bytes for use in uses.values())
        own = sum(use.held_bytes // trees[key].spread for key, use in uses.items())
        foreign = self._foreign_bytes(own, held)
        return Sample(
            used_bytes=own + foreign,
            foreign_bytes=foreign,
            by_tree={key: uses[key].level_bytes // tree.spread for key, tree in trees.items()},
            utilisation=0.0,
            seen=frozenset(key for key, use in uses.items() if use.alive),
            processes={pid: n for use in uses.values() for pid, n in use.processes.items()},
        )

    def held_bytes(self, tree: Tree) -> int:
        """Return what the tree holds beyond what it had before its first job."""
        resident, _ = resident_and_peak(tree.main_pid)
        others = _read_privately(tree.root_pid, apart_from={tree.main_pid})
        grown = max(0, resident - tree.baseline_bytes)
        return grown + self._copied.bytes_of(tree) + sum(others.values())

    def accounted_bytes(self, tree: Tree) -> int:
        """Return the peak of a process that has copied memory, looked at now.

        Else nothing: the kernel's peak is part of every sample.
        """
        if (most_bytes := most_copied_bytes(tree)) < NOTABLE_BYTES:
            return 0
        _, peak = resident_and_peak(tree.main_pid)
        copied = read_copied_bytes(tree, most_bytes)
        return max(0, peak - tree.baseline_bytes) + copied

    def close(self) -> None:
        """Nothing is held open."""

    def _uses(self, trees: Mapping[str, Tree]) -> dict[str, _Use]:
        ceilings = _ceilings(trees)
        counted = {tree.main_pid for tree in trees.values()}
        roots = {tree.root_pid for tree in trees.values()}
        self._others = {root: slow for root, slow in self._others.items() if root in roots}
        self._copied.keep(counted)
        uses: dict[str, _Use] = {}
        for key in _innermost_first(trees):
            tree = trees[key]
            resident, peak = resident_and_peak(tree.main_pid)
            others = self._read_others(tree.root_pid, counted)
            counted.update(others)
            main = _between(tree.baseline_bytes, resident, ceilings.get(key))
            level = _between(tree.baseline_bytes, peak, ceilings.get(key))
            below = sum(others.values()) + self._copied.bytes_of(tree)
            uses[key] = _Use(
                held_bytes=main + below,
                level_bytes=level + below,
                alive=bool(resident or others),
                processes={tree.main_pid: resident, **others} if resident else others,
            )
        return uses

    def _read_others(self, root_pid: int, counted: Collection[int]) -> dict[int, int]:
        slow = self._others.setdefault(root_pid, Slowly())
        recent = slow.recent(time.monotonic())
        if recent is not None and len(recent) > MANY_PROCESSES:
            return {pid: n for pid, n in recent.items() if pid not in counted}
        started = time.monotonic()
        others = _read_privately(root_pid, apart_from=counted)
        slow.keep(others, started, time.monotonic())
        return others

    def _foreign_bytes(self, own: int, held: int) -> int:
        """Return what this device cannot have because somebody else has it.

        What is available is divided among the devices by what each has still to claim,
        so that together they never claim more than there is.

        Args:
            held: By our own jobs, with what of it is charged to other devices of their leases.
        """
        wanted = self.info.total_bytes - own
        if wanted <= 0:
            return 0
        try:
            available = available_bytes()
        except OSError as error:
            raise DeviceUnreadable(f"host:{self.info.index}", str(error)) from None
        all_wanted = self._sum_bytes - held
        if available * wanted // max(wanted, all_wanted) < wanted:
            all_wanted -= self._siblings.held_bytes(time.monotonic())
        return max(0, wanted - available * wanted // max(wanted, all_wanted))


def _innermost_first(trees: Mapping[str, Tree]) -> list[str]:
    """Order trees so that each process is counted for the nearest root above it.

    A root inside another tree, as of an inline job, is younger than that tree's root.
    """
    if len(trees) < 2:
        return list(trees)
    return sorted(trees, key=lambda key: start_time(trees[key].root_pid) or 0, reverse=True)


def _ceilings(trees: Mapping[str, Tree]) -> dict[str, int]:
    """Tell trees apart that have one main process: each ends where the next began."""
    by_main: dict[int, list[str]] = {}
    for key, tree in trees.items():
        by_main.setdefault(tree.main_pid, []).append(key)
    ceilings: dict[str, int] = {}
    for keys in by_main.values():
        keys.sort(key=lambda key: trees[key].baseline_bytes)
        for key, following in pairwise(keys):
            ceilings[key] = trees[following].baseline_bytes
    return ceilings


def _between(floor: int, level: int, ceiling: int | None) -> int:
    return max(0, (level if ceiling is None else min(level, ceiling)) - floor)


def _read_privately(root_pid: int, *, apart_from: Collection[int]) -> dict[int, int]:
    # The caller of an inline job may have started broker and workers, and so all other jobs.
    ours = own_lineage(os.getppid())
    below = descendants(root_pid, without=[pid for pid in ours if pid != root_pid])
    return {pid: private_bytes(pid) for pid in below if pid not in apart_from}
