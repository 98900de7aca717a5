"""One decision about one job: Place, Hold or Refuse. Plain values in, one decision out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from grn_zmq.units import format_bytes


class Why(StrEnum):
    """What a waiting job waits for."""

    NO_DEVICE = "no device"
    PROFILE = "profile"
    NO_IDLE_DEVICE = "no idle device"
    NO_PLACE = "no place"
    NO_ROOM = "no room"


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device as one job sees it; the job's ancestors are already left out."""

    worker: str
    index: int
    total_bytes: int
    free_bytes: int
    idle: bool
    has_place: bool
    being_measured: bool
    need_bytes: int | None
    lease_bytes: int | None


@dataclass(frozen=True, slots=True)
class Place:
    worker: str
    lease_bytes: int
    measuring: bool


@dataclass(frozen=True, slots=True)
class Hold:
    why: Why
    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    need_bytes: int
    largest_bytes: int


Decision = Place | Hold | Refuse


def decide(
    job_type: str, policy: str, type_being_measured: bool, devices: Sequence[DeviceView]
) -> Decision:
    """Decide about one job; a view without `need_bytes` means its type was never measured."""
    if not devices:
        return Hold(Why.NO_DEVICE, "waiting for a device: no worker is connected")
    if devices[0].need_bytes is None:
        return _decide_unmeasured(job_type, type_being_measured, devices)
    return _decide_measured(policy, devices)


def _decide_unmeasured(
    job_type: str, type_being_measured: bool, devices: Sequence[DeviceView]
) -> Decision:
    if type_being_measured:
        return Hold(Why.PROFILE, f"waiting for profile of {job_type}")
    idle = [device for device in devices if device.idle and not device.being_measured]
    if not idle:
        return Hold(
            Why.NO_IDLE_DEVICE,
            f"waiting for an idle device: {job_type} was never measured and runs alone first",
        )
    emptiest = max(idle, key=lambda device: (device.free_bytes, -device.index))
    if emptiest.free_bytes <= 0:
        return Hold(
            Why.NO_ROOM,
            f"waiting for memory: others fill even device {emptiest.index}, the emptiest",
        )
    return Place(emptiest.worker, lease_bytes=emptiest.free_bytes, measuring=True)


def _decide_measured(policy: str, devices: Sequence[DeviceView]) -> Decision:
    able = [device for device in devices if (device.need_bytes or 0) <= device.total_bytes]
    if not able:
        smallest_need = min(device.need_bytes or 0 for device in devices)
        return Refuse(smallest_need, max(device.total_bytes for device in devices))
    open_to_all = [device for device in able if not device.being_measured]
    if not open_to_all:
        return Hold(Why.NO_PLACE, "waiting for a device: a new job type is being measured")
    placed = [device for device in open_to_all if device.has_place]
    if not placed:
        return Hold(Why.NO_PLACE, "waiting for a place: every device has its most jobs at once")
    roomy = [device for device in placed if device.free_bytes >= (device.lease_bytes or 0)]
    if not roomy:
        return _no_room(placed)
    sign = 1 if policy == "spread" else -1
    best = max(roomy, key=lambda device: (sign * device.free_bytes, -device.index))
    return Place(best.worker, lease_bytes=best.lease_bytes or 0, measuring=False)


def _no_room(devices: Sequence[DeviceView]) -> Hold:
    best = max(devices, key=lambda device: device.free_bytes - (device.lease_bytes or 0))
    return Hold(
        Why.NO_ROOM,
        f"waiting for memory: needs {format_bytes(best.lease_bytes or 0)}, "
        f"device {best.index} has {format_bytes(max(0, best.free_bytes))} free",
    )
