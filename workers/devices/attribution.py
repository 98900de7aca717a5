"""Whose is the memory of a GPU? Pure arithmetic on one reading of the driver.

Usually the driver says it per process. It does not in a container with pids of its own,
nor where per-process memory is "not available": then what the device uses beyond what it
used when no job of ours was there belongs to the job that cannot be read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.units import MIB

# A CUDA context takes 100 MiB and more; a driver's own use varies by a few.
_UNLISTED_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True)
class Reading:
    """What the driver says: bytes in use, and by pid, None where it does not know.

    Those that are `drawing` do nothing else.
    """

    used_bytes: int
    by_pid: Mapping[int, int | None] = field(default_factory=dict)
    drawing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Attribution:
    """What each tree uses, which of the figures are its own, and whose each process is."""

    by_tree: Mapping[str, int]
    foreign_bytes: int
    seen: frozenset[str]
    owners: Mapping[int, str] = field(default_factory=dict)


def attribute(
    now: Reading,
    owners: Mapping[int, str | None],
    keys: Collection[str],
    quiet: Reading,
) -> Attribution:
    """Divide the memory in use among our trees and everybody else.

    Args:
        owners: The tree of each listed pid that exists here; None for foreign ones.
        keys: All trees that are on the device.
        quiet: The last reading at which no tree of ours was there.
    """
    by_tree = dict.fromkeys(keys, 0)
    for pid, key in owners.items():
        if key is not None:
            by_tree[key] += now.by_pid[pid] or 0
    seen = {key for key in owners.values() if key is not None}
    rest = max(
        0, now.used_bytes - _expected_foreign(now, owners, quiet) - sum(by_tree.values())
    )
    unread = _unread(now, owners, keys, quiet, seen, rest)
    whose = {pid: key for pid, key in owners.items() if key is not None}
    for key in unread:
        by_tree[key] += rest // len(unread)
    if len(unread) == 1:
        (only,) = unread
        whose |= dict.fromkeys(_strangers(now, owners, quiet), only)
        seen |= unread
    elif unread:
        seen -= unread
    for key in {owners[pid] for pid in owners if now.by_pid[pid] is None} - {None}:
        # Listed, so it holds something, whatever the difference says.
        by_tree[str(key)] = max(1, by_tree[str(key)])
    foreign = max(0, now.used_bytes - sum(by_tree.values()))
    return Attribution(by_tree, foreign, frozenset(seen), whose)


def _expected_foreign(now: Reading, owners: Mapping[int, str | None], quiet: Reading) -> int:
    """Return what would be in use without our trees: what was, and how that has changed."""
    foreign = sum(
        count or 0
        for pid, count in now.by_pid.items()
        if (owners[pid] is None if pid in owners else pid in quiet.by_pid)
    )
    before = sum(count or 0 for count in quiet.by_pid.values())
    return max(0, quiet.used_bytes + foreign - before)


def _unread(
    now: Reading,
    owners: Mapping[int, str | None],
    keys: Collection[str],
    quiet: Reading,
    seen: Collection[str],
    rest: int,
) -> set[str]:
    """Name the trees among which the memory is that nobody answers for."""
    vague = {key for pid, key in owners.items() if key is not None and now.by_pid[pid] is None}
    if vague:
        return vague
    strangers = _strangers(now, owners, quiet)
    # A listed stranger of unknown use explains more than a job that is not listed at all.
    untold = any(key is None and now.by_pid[pid] is None for pid, key in owners.items())
    hidden = not seen and not untold and rest > _UNLISTED_BYTES
    return set(keys) - set(seen) if strangers or hidden else set()


def _strangers(now: Reading, owners: Mapping[int, str | None], quiet: Reading) -> list[int]:
    """List those that do not exist here and came after our trees: pids of other namespaces."""
    return [pid for pid in now.by_pid if pid not in owners and pid not in quiet.by_pid]
