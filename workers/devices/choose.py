"""From `--devices` and the environment to one device per worker.

The daemon plans; each worker opens its own. Between them a device has a name:
`nvml:0/GPU-1b2c…` (index and uuid) or `host:0of2/4294967296of8589934592` (index, how many
there are in this pool, its bytes of those of all of them together).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grn_zmq.errors import DeviceError
from grn_zmq.units import format_bytes

from . import shares
from .device import Device
from .gpus import VISIBLE, Gpu, pick, whole
from .host import HostDevice
from .memory import available_bytes, physical_bytes

_FORMS: Final = "auto, nvml, nvml:0,2, nvml:GPU-<uuid>, host, host:4 or host:4x2GiB"
_NVML: Final = re.compile(r"nvml:([0-9]+)/(\S+)", re.ASCII)
_HOST: Final = re.compile(r"host:([0-9]+)of([0-9]+)/([0-9]+)of([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Named:
    kind: str
    index: int
    uuid: str = ""
    count: int = 1
    total_bytes: int = 0
    sum_bytes: int = 0


def plan(text: str | None, environ: Mapping[str, str]) -> list[str]:
    """Name the device of each worker.

    Args:
        text: What `--devices` says; None is `auto`: GPUs if there are any, else host memory.
        environ: The daemon's environment; its CUDA_VISIBLE_DEVICES limits the GPUs.

    Raises:
        DeviceError: What was asked for does not exist; one line that says what does.
    """
    kind, _, choice = (text or "auto").strip().partition(":")
    match kind.lower():
        case "auto" if not choice:
            gpus = _gpus(required=False)
            return _visible(gpus, "", environ) if gpus else _host("")
        case "nvml":
            return _visible(_gpus(required=True), choice, environ)
        case "host":
            return _host(choice.strip())
    raise DeviceError(f"--devices {text} is not understood: write {_FORMS}")


def open_device(name: str) -> Device:
    """Open a device that was planned; call it in the process that will read it.

    Raises:
        DeviceError: The name is none, or the device is gone.
        DeviceUnreadable: It is there but does not answer.
    """
    named = _parse(name)
    if named.kind == "nvml":
        from .nvml import NvmlDevice  # loads the driver's library

        return NvmlDevice(named.uuid)
    return HostDevice(
        named.index,
        count=named.count,
        total_bytes=named.total_bytes,
        sum_bytes=named.sum_bytes,
    )


def gpu_of(name: str) -> tuple[int, str] | None:
    """Give index and uuid of a GPU that was planned; None for a share of host memory."""
    named = _parse(name)
    return (named.index, named.uuid) if named.kind == "nvml" else None


def renumbered(name: str, index: int) -> str:
    """Name a host device by another number: that of its first may be taken."""
    kind, _, rest = name.partition(":")
    return f"{kind}:{index}of{rest.partition('of')[2]}"


def default_max_jobs(names: Sequence[str]) -> int | None:
    """Return how many jobs a device runs at once if nobody says; None for no limit."""
    if not names or _parse(names[0]).kind == "nvml":
        return None
    return max(2, len(os.sched_getaffinity(0)) // len(names))


def describe(names: Sequence[str]) -> str:
    """Say in a few words what was planned: `GPUs {0, 1}`."""
    devices = [_parse(name) for name in names]
    indices = "{" + ", ".join(str(device.index) for device in devices) + "}"
    if devices and devices[0].kind == "nvml":
        return f"GPUs {indices}"
    totals = [format_bytes(device.total_bytes) for device in devices]
    return (
        f"host devices {indices} of {totals[0] if len(set(totals)) == 1 else ', '.join(totals)}"
    )


def _gpus(*, required: bool) -> list[Gpu]:
    from .nvml import NoDriver, list_gpus

    try:
        gpus = list_gpus()
    except NoDriver as error:
        if error.absent and not required:
            return []
        raise
    if required and not gpus:
        raise DeviceError(
            "the NVIDIA driver answers but has no GPU: run on host memory with --devices host"
        )
    return gpus


def _visible(gpus: Sequence[Gpu], choice: str, environ: Mapping[str, str]) -> list[str]:
    limit = environ.get(VISIBLE)
    allowed = list(gpus) if limit is None else pick(gpus, limit, VISIBLE)
    chosen = pick(gpus, choice, "--devices nvml") if choice else allowed
    for gpu in chosen:
        if gpu not in allowed:
            raise DeviceError(
                f"--devices nvml:{choice} asks for GPU {gpu.index}, which "
                f"{VISIBLE}={limit!r} keeps from this process"
            )
    return [f"nvml:{gpu.index}/{gpu.uuid}" for gpu in whole(chosen)]


def _host(choice: str) -> list[str]:
    totals = shares.sizes(
        choice, available_bytes=available_bytes(), physical_bytes=physical_bytes()
    )
    return [
        f"host:{index}of{len(totals)}/{total}of{sum(totals)}"
        for index, total in enumerate(totals)
    ]


def _parse(name: str) -> _Named:
    if match := _NVML.fullmatch(name):
        return _Named("nvml", int(match[1]), uuid=match[2])
    if match := _HOST.fullmatch(name):
        index, count, total, of_all = map(int, match.groups())
        if count and 0 < total <= of_all:
            return _Named("host", index, count=count, total_bytes=total, sum_bytes=of_all)
    raise DeviceError(f"{name!r} is no name of a device")
