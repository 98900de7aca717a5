"""Read the process tree and its memory from /proc, cheaply and without ever raising.

A process may vanish between any two reads: it then has no parent, no children and no
memory. Nothing here scans all processes unless the kernel offers no other way.
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

# More than any machine has processes on its GPUs; past it the cache starts anew.
_CACHE_LIMIT: Final = 4096
_STAT_PPID: Final = 1  # positions behind the last ')', see proc(5)
_STAT_FAULTS: Final = 7
_STAT_START: Final = 19
_PRIVATE: Final = re.compile(rb"^Private_\w+:\s+(\d+) kB", re.MULTILINE)


@dataclass(slots=True)
class OwnerCache:
    """Which root a process belongs to, by (pid, start time), since pids come again."""

    roots: frozenset[int] = frozenset()
    known: dict[tuple[int, int], int | None] = field(default_factory=dict)


def descendants(pid: int, without: Collection[int] = ()) -> list[int]:
    """List all processes below this one, parents before their children.

    Args:
        without: Processes that are left out, together with all below them.
    """
    if not _kernel_lists_children():
        return _descendants_by_scan(pid, without)
    seen = {pid, *without}
    found = [child for child in children(pid) if child not in seen]
    seen.update(found)
    for parent in found:  # grows while it is walked: breadth first
        fresh = [child for child in children(parent) if child not in seen]
        seen.update(fresh)
        found.extend(fresh)
    return found


def children(pid: int) -> list[int]:
    """List the processes directly below this one."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        found.extend(map(int, _read(f"/proc/{pid}/task/{task}/children").split()))
    return found


def lineage(pid: int) -> list[int]:
    """List this process and all above it, the nearest first."""
    found: list[int] = []
    while pid > 0 and (stat := _stat(pid)):
        found.append(pid)
        pid = stat[0]
    return found


@cache
def own_lineage(parent_pid: int) -> list[int]:
    """List this process and all that had it started.

    Args:
        parent_pid: Its parent; with another one it is found anew.
    """
    return [os.getpid(), *lineage(parent_pid)]


def start_time(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if it is gone."""
    stat = _stat(pid)
    return stat[1] if stat else None


@lru_cache(maxsize=_CACHE_LIMIT)
def job_named(pid: int, started: int) -> str | None:
    """Return the job that a process says in its environment to be of; None if it does not.

    Args:
        started: When it started, which tells it from others that had this pid.
    """
    for text in _read(f"/proc/{pid}/environ").split(b"\0"):
        name, _, value = text.partition(b"=")
        if name == b"GRN_JOB_ID":
            return value.decode(errors="replace")
    return None


def owner(pid: int, roots: Collection[int], cache: OwnerCache) -> int | None:
    """Find the nearest of `roots` that this process is, or descends from."""
    stat = _stat(pid)
    if stat is None:
        return None
    if cache.roots != frozenset(roots) or len(cache.known) > _CACHE_LIMIT:
        cache.roots, cache.known = frozenset(roots), {}
    key = (pid, stat[1])
    if key not in cache.known:
        complete, root = _walk_up(pid, cache.roots)
        if not complete:
            # A parent died during the walk; its children have a new one by now.
            complete, root = _walk_up(pid, cache.roots)
        if not complete:
            return None
        cache.known[key] = root
    return cache.known[key]


def resident_bytes(pid: int) -> int:
    """Return what the process holds in memory now, shared pages included."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def peak_bytes(pid: int) -> int:
    """Return the most it ever held since its peak was last reset (VmHWM)."""
    return resident_and_peak(pid)[1]


def resident_and_peak(pid: int) -> tuple[int, int]:
    """Return what it holds and the most it held, from one and the same read."""
    status = _read(f"/proc/{pid}/status")
    return _status_bytes(status, b"VmRSS:"), _status_bytes(status, b"VmHWM:")


def private_bytes(pid: int) -> int:
    """Return what would be free if the process ended (USS); costs milliseconds.

    Where the kernel does not tell, the resident bytes, which are never less.
    """
    rollup = _read(f"/proc/{pid}/smaps_rollup")
    if not rollup:
        return resident_bytes(pid)
    return sum(int(kilobytes) for kilobytes in _PRIVATE.findall(rollup)) * 1024


def resident_and_private(pid: int) -> tuple[int, int]:
    """Return what it holds and what of it is its own, from one and the same read (dear)."""
    rollup = _read(f"/proc/{pid}/smaps_rollup")
    private = sum(int(kilobytes) for kilobytes in _PRIVATE.findall(rollup)) * 1024
    return _status_bytes(rollup, b"Rss:"), private


def minor_faults(pid: int) -> int:
    """Return how often it was given or copied a page (or mapped some); 0 if it is gone."""
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 1 :].split()
    return int(fields[_STAT_FAULTS]) if len(fields) > _STAT_FAULTS else 0


def inner_pids(pid: int) -> list[int]:
    """List the pids that this process has in pid namespaces below ours."""
    status = _read(f"/proc/{pid}/status")
    at = status.find(b"\nNSpid:")
    if at < 0:
        return []
    return [int(text) for text in status[at + 7 : status.find(b"\n", at + 1)].split()[1:]]


@cache
def _kernel_lists_children() -> bool:
    return os.path.exists("/proc/thread-self/children")


def _descendants_by_scan(pid: int, without: Collection[int]) -> list[int]:
    below: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in without and (stat := _stat(int(entry))):
            below.setdefault(stat[0], []).append(int(entry))
    found = list(below.get(pid, ()))
    for parent in found:
        found.extend(below.get(parent, ()))
    return found


def _walk_up(pid: int, roots: frozenset[int]) -> tuple[bool, int | None]:
    """Climb to a root; False if a process on the way vanished."""
    while pid > 0:
        if pid in roots:
            return True, pid
        stat = _stat(pid)
        if stat is None:
            return False, None
        pid = stat[0]
    return True, None


def _stat(pid: int) -> tuple[int, int] | None:
    """Return (parent, start time). The name may contain anything, even ') R 1'."""
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 1 :].split()
    if len(fields) <= _STAT_START:
        return None
    return int(fields[_STAT_PPID]), int(fields[_STAT_START])


def _status_bytes(status: bytes, name: bytes) -> int:
    at = status.find(b"\n" + name)
    if at < 0:
        return 0
    return int(status[at + 1 + len(name) :].split(None, 1)[0]) * 1024


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
