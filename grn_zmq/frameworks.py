"""What the frameworks that a job has loaded count of their device memory.

Nothing here imports a framework or wakes a GPU: who is not loaded has nothing to tell, and
a context costs hundreds of megabytes. Nothing here raises: what a framework of another
version does not know, it is not asked. CuPy is not asked at all: its pool keeps no peak,
and what it holds now the driver tells as well.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Counters(NamedTuple):
    """Device memory in the pools of the frameworks; all 0 if none tells."""

    reserved_bytes: int = 0
    reserved_peak_bytes: int = 0
    allocated_peak_bytes: int = 0


def counters() -> Counters:
    """Add up what the loaded frameworks say of this process."""
    told = [*quietly(_torch_counters), *quietly(_jax_counters)]
    return Counters(*map(sum, zip(*told, strict=True))) if told else Counters()


def reset_counters() -> None:
    """Let peaks begin anew, so that the next run's are its own."""
    quietly(_reset_torch)


def quietly(ask: Callable[[], Iterable[Any] | None]) -> list[Any]:
    """Ask a framework, whatever state it is in; nothing if it cannot answer."""
    try:
        return list(ask() or ())
    except Exception:
        return []


def _used_torch() -> Any:
    """`torch.cuda`, if this process has used a GPU through it."""
    cuda = sys.modules.get("torch.cuda")
    return cuda if cuda is not None and cuda.is_initialized() else None


def _torch_counters() -> list[Counters]:
    cuda = _used_torch()
    return [
        Counters(
            cuda.memory_reserved(index),
            cuda.max_memory_reserved(index),
            cuda.max_memory_allocated(index),
        )
        for index in range(cuda.device_count() if cuda else 0)
    ]


def _reset_torch() -> None:
    cuda = _used_torch()
    for index in range(cuda.device_count() if cuda else 0):
        cuda.reset_peak_memory_stats(index)


def _jax_counters() -> list[Counters]:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        return []
    found = [device.memory_stats() or {} for device in sys.modules["jax"].local_devices()]
    return [
        Counters(
            one["pool_bytes"],
            max(one["pool_bytes"], one.get("peak_pool_bytes", 0)),
            one["peak_bytes_in_use"],
        )
        for one in found
        if "pool_bytes" in one and "peak_bytes_in_use" in one
    ]
