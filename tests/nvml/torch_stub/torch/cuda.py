"""`torch.cuda`: a context per device, blocks, a cache of freed ones, and peak counters."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.nvml import cuda as _driver
else:
    # By location: a job process has this package on its path, and not the project.
    _spec = importlib.util.spec_from_file_location(
        "fake_cuda", Path(__file__).parents[2] / "cuda.py"
    )
    _driver = importlib.util.module_from_spec(_spec)
    sys.modules["fake_cuda"] = _driver
    _spec.loader.exec_module(_driver)

OutOfMemoryError = _driver.OutOfMemoryError
# So that it is torch.OutOfMemoryError in a traceback and in a pickle.
OutOfMemoryError.__module__ = "torch"

CONTEXT_BYTES = 16 << 20
"""What the first use of a device costs, outside of all counters below."""

BLOCK_BYTES = 2 << 20

Held = tuple[int, int]
"""The device and the bytes behind one tensor."""


class _Pool:
    """What this process reserved on one device, and the part of it that tensors use."""

    def __init__(self) -> None:
        self.allocated = self.peak_allocated = 0
        self.reserved = self.peak_reserved = 0

    def grow(self, size: int, device: int) -> None:
        missing = max(0, self.allocated + size - self.reserved)
        total = get_device_properties(device).total_memory
        allowed = int(total * _fractions.get(device, 1.0))
        if device in _fractions and self.reserved + missing > allowed:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size / (1 << 20):.2f} MiB. "
                f"GPU {device} has {allowed / (1 << 20):.2f} MiB allowed."
            )
        if missing:
            _driver.alloc_bytes(missing, device)
        self.reserved += missing
        self.allocated += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.peak_allocated = max(self.peak_allocated, self.allocated)


@dataclass(frozen=True)
class _Properties:
    total_memory: int


_pools: dict[int, _Pool] = {}
_fractions: dict[int, float] = {}
_queued: list[Callable[[], None]] = []
_owner = 0
# Entered again when a collection inside of it deletes a tensor.
_lock = threading.RLock()


def allocate(size: int, device: int) -> Held:
    """Take blocks for one tensor; the first on a device opens its context."""
    global _owner
    if is_initialized() and _owner != os.getpid():
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    blocks = -(-size // BLOCK_BYTES) * BLOCK_BYTES
    with _lock:
        if device not in _pools:
            _driver.alloc_bytes(CONTEXT_BYTES, device)
            _owner = os.getpid()
            _pools[device] = _Pool()
            while _queued:
                _queued.pop()()
        _pools[device].grow(blocks, device)
    return device, blocks


def release(held: Held) -> None:
    """Give a tensor's blocks back to the cache: the device does not get them yet."""
    device, blocks = held
    with _lock:
        _pools[device].allocated -= blocks


def empty_cache() -> None:
    with _lock:
        for device, pool in _pools.items():
            _driver.free_bytes(pool.reserved - pool.allocated, device)
            pool.reserved = pool.allocated


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    return bool(_pools)


def device_count() -> int:
    return len(_driver.visible_cards())


def _lazy_call(call: Callable[[], None]) -> None:
    """Call now, or once a device is first used."""
    call() if is_initialized() else _queued.append(call)


def get_device_properties(device: int) -> _Properties:
    return _Properties(_driver.visible_cards()[device].number("total"))


def set_per_process_memory_fraction(fraction: float, device: int = 0) -> None:
    """Limit what this process reserves; wakes the device, which the real one does too."""
    if not is_initialized():
        allocate(0, device)
    _fractions[device] = fraction


def get_per_process_memory_fraction(device: int = 0) -> float:
    return _fractions.get(device, 1.0)


def synchronize(device: int = 0) -> None:
    """Return at once: nothing here runs behind the caller's back."""


def memory_allocated(device: int = 0) -> int:
    return _pool(device).allocated


def memory_reserved(device: int = 0) -> int:
    return _pool(device).reserved


def max_memory_allocated(device: int = 0) -> int:
    return _pool(device).peak_allocated


def max_memory_reserved(device: int = 0) -> int:
    return _pool(device).peak_reserved


def reset_peak_memory_stats(device: int = 0) -> None:
    pool = _pool(device)
    pool.peak_allocated, pool.peak_reserved = pool.allocated, pool.reserved


def _pool(device: int) -> _Pool:
    """Asking must not open a context, so a device that was never used has zeros."""
    return _pools.get(device, _Pool())
