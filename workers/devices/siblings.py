"""What the other host devices' jobs hold, as far as it can be seen from here.

Each device has a worker process of its own, and the workers are children of one process,
started alike. Where they cannot be told for certain, nothing is assumed to be theirs: a
device then takes their memory for foreign and claims less, never more.
"""

import os
import re
import time
from pathlib import Path
from typing import Final

from ..proctree import children, descendants, private_bytes
from .slowly import Slowly

# What the job process of a job without device is started with.
_NO_DEVICE: Final = b"GRN_DEVICE="


class SiblingUse:
    """The memory below the workers beside this one."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: Slowly[int] = Slowly()

    def held_bytes(self, now: float) -> int:
        """Return what their jobs hold privately; at most half a second old."""
        held = self._held.recent(now)
        if held is None:
            below = [pid for worker in self._workers() for pid in _of_devices(worker)]
            held = sum(private_bytes(pid) for pid in below)
            self._held.keep(held, now, time.monotonic())
        return held

    def _workers(self) -> list[int]:
        own = os.getpid()
        kind = _kind(own)
        parent = os.getppid()
        alike = [pid for pid in children(parent) if pid != own and _kind(pid) == kind]
        return alike if 0 < len(alike) <= self._count else []


def _of_devices(worker: int) -> list[int]:
    """List what is below a worker, without jobs that have no device: those are foreign."""
    without = [pid for pid in children(worker) if _NO_DEVICE in _environment(pid)]
    return descendants(worker, without)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kind(pid: int) -> bytes:
    """Return the command line without its numbers, in which workers differ."""
    try:
        return re.sub(rb"[0-9]+", b"", Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return b""
