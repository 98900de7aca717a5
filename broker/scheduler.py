"""One decision about one job: Place, Hold or Refuse. Plain values in, one decision out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from grn_zmq.units import format_bytes

from .estimates import Estimate

# Devices named in a reason; more would drown it.
MOST_SHOWN: Final = 4
# Between two devices of which nothing is known.
FARTHEST: Final = 1000


class Why(StrEnum):
    """What a waiting job waits for."""

    NO_DEVICE = "no device"
    DEVICES = "devices missing"
    RESOURCE = "resource missing"
    ENVIRONMENT = "environment missing"
    PROFILE = "profile"
    NO_IDLE_DEVICE = "no idle device"
    NO_PLACE = "no place"
    NO_ROOM = "no room"
    RESERVED = "reserved"
    HELD = "held"
    DEPENDENCY = "dependency"
    BEGIN = "begin time"
    PAUSED = "paused"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Wish:
    """What one job wants of a device, beside memory.

    `alone_on_bytes` is the size of the device it must have to itself after it ran out of
    memory with company, else 0; an `exclusive` one wants any device so, or several `gpus` at
    once. It is `wary` after a neighbour's growth cost it its memory: then it keeps away from
    jobs whose need is in doubt. With a `declared` share it needs no measuring.
    """

    job_type: str
    policy: str = "spread"
    type_being_measured: bool = False
    window_full: bool = False
    alone_on_bytes: int = 0
    wary: bool = False
    exclusive: bool = False
    gpus: int = 1
    declared: bool = False


@dataclass(slots=True)
class DeviceView:
    """A device as one job sees it; the job's ancestors are already left out.

    `headroom_bytes` is what sharing must leave free with this job on board. An idle device
    needs none: who is alone may have it all. `strangers` are processes of others there, and
    `links` says how far other devices are from it.
    """

    worker: str
    index: int
    total_bytes: int
    free_bytes: int
    idle: bool
    jobs: int = 0
    has_place: bool = True
    closed: bool = False
    shares: bool = True
    doubted: bool = False
    held_for: str = ""
    headroom_bytes: int = 0
    estimate: Estimate | None = None
    lease_bytes: int = 0
    uuid: str = ""
    strangers: int = 0
    links: Mapping[str, int] = field(default_factory=dict)

    @property
    def too_small(self) -> bool:
        """Whether the job is sure to need more than there is."""
        return self.estimate is not None and self.estimate.sure_bytes > self.total_bytes

    @property
    def whole(self) -> bool:
        """Whether all of it can be had: nobody is there."""
        return self.idle and not (self.closed or self.strangers)

    @property
    def spare_bytes(self) -> int:
        """What is left once the job is here; below zero it does not fit."""
        spare = self.free_bytes - self.lease_bytes
        return spare if self.idle else spare - self.headroom_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is to run. `others` are further devices, each with what is leased there.

    Without `device` its worker only runs it.
    """

    worker: str
    lease_bytes: int
    measuring: bool
    alone: bool = False
    others: tuple[tuple[str, int], ...] = ()
    device: bool = True


@dataclass(frozen=True, slots=True)
class Hold:
    why: Why
    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """It can never run: it needs more than any device has, or for the reason in `text`."""

    need_bytes: int
    largest_bytes: int
    text: str = ""


Decision = Place | Hold | Refuse


def decide(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    """Decide about one job; a view without `estimate` means its type was never measured."""
    if not devices:
        return Hold(Why.NO_DEVICE, "waiting for a device: no worker is connected")
    known = [(one, one.estimate) for one in devices if one.estimate is not None]
    fits = [one for one in devices if not one.too_small]
    if fits and (wish.exclusive or wish.declared) and not wish.alone_on_bytes:
        return _decide_declared(wish, fits)
    if fits and wish.gpus > 1:  # also its last try, which is alone anyway
        return _decide_declared(wish, fits)
    if not known:
        return _decide_unmeasured(wish, devices)
    if all(estimate.sure_bytes > device.total_bytes for device, estimate in known):
        if len(known) < len(devices):
            return _decide_unmeasured(wish, [one for one in devices if one.estimate is None])
        smallest_need = min(estimate.sure_bytes for _, estimate in known)
        return Refuse(smallest_need, max(device.total_bytes for device in devices))
    if wish.alone_on_bytes:
        return _decide_alone(wish, devices)
    unmeasured = [one for one in devices if one.estimate is None]
    if unmeasured and all(estimate.beyond for _, estimate in known):
        return _decide_unmeasured(wish, unmeasured)
    if wish.window_full:
        return Hold(
            Why.PROFILE,
            f"waiting for profile of {wish.job_type}: as many run as its unfinished first "
            f"run can vouch for",
        )
    return _decide_measured(wish, devices)


def _decide_unmeasured(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    if wish.type_being_measured:
        return Hold(Why.PROFILE, f"waiting for profile of {wish.job_type}")
    return _on_idle(
        devices,
        f"waiting for an idle device: {wish.job_type} was never measured and runs alone first",
        measuring=True,
    )


def _decide_alone(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    """Its last try: the largest device, and all of it."""
    return _on_idle(
        [device for device in devices if device.total_bytes >= wish.alone_on_bytes],
        f"waiting for an idle device: {wish.job_type} ran out of memory beside others and "
        f"runs alone next",
        measuring=False,
    )


def _decide_declared(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    if not wish.exclusive:
        return _decide_share(wish, devices)
    if wish.gpus > 1:
        return _decide_several(wish.gpus, devices)
    text = "waiting for an idle device: it wants one to itself (exclusive)"
    # Strangers make no room for anybody: where they are no device is whole.
    clean = [device for device in devices if not device.strangers]
    if not any(device.idle and not device.closed for device in clean):
        return Hold(Why.NO_IDLE_DEVICE, f"{text} ({_busy(devices)})")
    return _on_idle(clean, text, measuring=False)


def _decide_several(count: int, devices: Sequence[DeviceView]) -> Decision:
    """All of them at once, or none: who waits holds nothing."""
    devices = sorted(devices, key=lambda device: device.index)
    whole = [device for device in devices if device.whole and device.free_bytes > 0]
    unkept = [device for device in whole if not device.held_for]
    if len(unkept) < count:
        if len(whole) >= count:
            kept = next(device for device in whole if device.held_for)
            return _held(kept)
        free = ", ".join(f"device {device.index}" for device in whole) or "none"
        return Hold(
            Why.DEVICES,
            f"waiting for {count} idle devices: free are {free} ({_busy(devices)})",
        )
    first, *others = closest(count, unkept)
    rest = tuple((one.worker, one.free_bytes) for one in others)
    return Place(first.worker, first.free_bytes, measuring=False, alone=True, others=rest)


def _decide_share(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    """A declared part of a device starts as soon as it is free: nothing is to be measured."""
    open_to_all = [device for device in devices if not device.closed]
    if not open_to_all:
        return Hold(
            Why.NO_PLACE,
            f"waiting for a device: somebody has each to himself ({_busy(devices)})",
        )
    roomy = [device for device in open_to_all if device.spare_bytes >= 0]
    if not roomy:
        return _no_room(open_to_all)
    sign = 1 if wish.policy == "spread" else -1
    best = max(roomy, key=lambda device: (sign * device.free_bytes, -device.index))
    return Place(best.worker, best.lease_bytes, measuring=False)


def _on_idle(devices: Sequence[DeviceView], text: str, *, measuring: bool) -> Decision:
    idle = [device for device in devices if device.idle and not device.closed]
    if not idle:
        return Hold(Why.NO_IDLE_DEVICE, f"{text} ({_busy(devices)})")
    unkept = [device for device in idle if not device.held_for]
    if not unkept:
        return _held(idle[0])
    emptiest = max(unkept, key=lambda device: (device.free_bytes, -device.index))
    if emptiest.free_bytes <= 0:
        return Hold(
            Why.NO_ROOM,
            f"waiting for memory: others fill even device {emptiest.index}, the emptiest",
        )
    if emptiest.free_bytes < min(emptiest.lease_bytes, emptiest.total_bytes):
        return _no_room(unkept)  # strangers hold what it is known to need
    return Place(emptiest.worker, emptiest.free_bytes, measuring=measuring, alone=not measuring)


def _decide_measured(wish: Wish, devices: Sequence[DeviceView]) -> Decision:
    able = [
        device
        for device in devices
        if device.estimate and device.estimate.sure_bytes <= device.total_bytes
    ]
    # Where it is expected to need more than there is, only if that is so everywhere.
    large = [device for device in able if device.estimate and not device.estimate.beyond]
    open_to_all = [device for device in large or able if not device.closed]
    if not open_to_all:
        return Hold(
            Why.NO_PLACE,
            "waiting for a device: a job that is being measured, or ran out of memory "
            f"before, has it to itself ({_busy(able)})",
        )
    placeless = [device for device in open_to_all if not device.has_place]
    placed = [device for device in open_to_all if device.has_place]
    if not placed:
        return Hold(
            Why.NO_PLACE,
            f"waiting for a place: every device has its most jobs at once ({_busy(placeless)})",
        )
    willing = [device for device in placed if _willing(wish, device)]
    if not willing:
        return _unwilling(wish, placed)
    roomy = [device for device in willing if device.spare_bytes >= 0]
    if not roomy:
        return _no_room(willing)
    sign = 1 if wish.policy == "spread" else -1
    best = max(roomy, key=lambda device: (sign * device.free_bytes, -device.index))
    return Place(best.worker, lease_bytes=best.lease_bytes, measuring=False)


def closest(count: int, devices: Sequence[DeviceView]) -> list[DeviceView]:
    """So many of these devices as near to each other as can be; then the first by index."""
    in_order = sorted(devices, key=lambda device: device.index)
    best: tuple[int, list[int]] | None = None
    found: list[DeviceView] = []
    for seed in in_order:
        chosen, total = [seed], 0
        while len(chosen) < count:
            left = [one for one in in_order if one not in chosen]
            step, near = min(
                ((_distance(one, chosen), one) for one in left), key=lambda pair: pair[0]
            )
            chosen.append(near)
            total += step
        rank = (total, sorted(one.index for one in chosen))
        if best is None or rank < best:
            best, found = rank, chosen
    return sorted(found, key=lambda device: device.index)


def _distance(device: DeviceView, others: Sequence[DeviceView]) -> int:
    return sum(one.links.get(device.uuid, FARTHEST) for one in others)


def _willing(wish: Wish, device: DeviceView) -> bool:
    return device.idle or (device.shares and not (wish.wary and device.doubted))


def _unwilling(wish: Wish, devices: Sequence[DeviceView]) -> Hold:
    if wish.wary:
        return Hold(
            Why.NO_PLACE,
            "waiting for a place beside jobs that keep to what they were measured to need: "
            f"a neighbour outgrew its lease before ({_busy(devices)})",
        )
    return Hold(
        Why.NO_IDLE_DEVICE,
        "waiting for an idle device: sharing was measured to be slower than one after the "
        f"other here ({_busy(devices)})",
    )


def _no_room(devices: Sequence[DeviceView]) -> Hold:
    best = max(devices, key=lambda device: device.spare_bytes)
    if best.held_for:
        return _held(best)
    text = (
        f"waiting for memory: needs {format_bytes(best.lease_bytes)}, "
        f"device {best.index} has {format_bytes(max(0, best.free_bytes))} free"
    )
    if best.free_bytes >= best.lease_bytes:
        text += f", of which {format_bytes(best.headroom_bytes)} stay free for growth"
    return Hold(Why.NO_ROOM, text)


def _held(device: DeviceView) -> Hold:
    beside = format_bytes(max(0, device.free_bytes))
    return Hold(
        Why.RESERVED,
        f"waiting for memory: device {device.index} is kept for {device.held_for}, which "
        f"has waited longer; {beside} are left beside it",
    )


def _busy(devices: Sequence[DeviceView]) -> str:
    """Say who is where, a few devices at most."""
    shown = [f"device {one.index} has {one.jobs}" for one in devices[:MOST_SHOWN]]
    more = len(devices) - len(shown)
    text = "jobs: " + ", ".join(shown) + (f" and {more} more devices" if more else "")
    strangers = [str(one.index) for one in devices if one.strangers]
    return f"{text}; other programs use {', '.join(strangers)}" if strangers else text
