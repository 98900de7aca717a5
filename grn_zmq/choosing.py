"""Which devices a process may lease, by what it asks for and by what is visible to it. Pure."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .errors import DeviceError
from .facts import DeviceRow

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
# What stands for all devices.
ALL: Final = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """How many devices to ask for; among these, by uuid, or among all if there are none."""

    gpus: int
    among: tuple[str, ...] = ()


def checked_count(gpus: object) -> int:
    """Give the number of devices that was asked for.

    Raises:
        TypeError: It is no whole number.
        ValueError: No lease can have so many.
    """
    if isinstance(gpus, float):
        raise ValueError(f"gpus={gpus!r}: a lease is of whole devices: 1, 2, or -1 for all")
    if isinstance(gpus, bool):
        raise TypeError(f"gpus={gpus!r} must be a whole number")
    try:
        count = operator.index(gpus)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"gpus={gpus!r} must be a whole number") from None
    if count < 1 and count != ALL:
        raise ValueError(f"gpus={count}: a lease has one device at least; -1 means all of them")
    return count


def visible_entries(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The devices that CUDA would show by this environment; None if it says nothing of them.

    As in CUDA, what comes behind an entry below zero does not count.
    """
    text = environ.get(VISIBLE)
    if text is None:
        return None
    entries: list[str] = []
    for entry in map(str.strip, text.split(",")):
        if not entry or entry.startswith("-"):
            break
        entries.append(entry)
    return tuple(entries)


def choose(gpus: int, entries: Sequence[str], rows: Sequence[DeviceRow]) -> Choice:
    """Restrict a lease to what is visible to its process.

    Args:
        entries: What CUDA_VISIBLE_DEVICES names: indices, uuids or beginnings of uuids.
        rows: The devices that are managed.

    Raises:
        DeviceError: None of them is managed, or not so many; the text has the numbers.
    """
    cards = [row for row in rows if row.facts.kind == "nvml"]
    if rows and not cards:
        return Choice(gpus)  # shares of host memory: what CUDA shows does not concern them
    if not entries:
        raise DeviceError(
            f"{VISIBLE} hides every GPU from this process, so it can lease none. Unset it, or "
            f"name those it may have"
        )
    found = [row for row in cards if any(_names(entry, row) for entry in entries)]
    allowed, managed = ",".join(entries), _indices(cards)
    if not found:
        raise DeviceError(
            f"{VISIBLE}={allowed} is all that this process may have, and the broker does not "
            f"manage it: it has {managed or 'no GPU'}. Unset {VISIBLE}, or start the broker "
            f"with those devices (`grn start --devices nvml:…`)"
        )
    if gpus > len(found):
        raise DeviceError(
            f"gpus={gpus}: {VISIBLE}={allowed} leaves {len(found)} of the GPUs that the broker "
            f"manages ({managed}) to this process. Ask for {len(found)} at most, or unset it"
        )
    return Choice(len(found) if gpus == ALL else gpus, tuple(row.facts.uuid for row in found))


def _names(entry: str, row: DeviceRow) -> bool:
    """Whether an entry means this device, as in CUDA also by the beginning of its uuid."""
    if entry.isascii() and entry.isdigit():
        return int(entry) == row.facts.index
    return row.facts.uuid.lower().startswith(entry.lower())


def free_devices(rows: Sequence[DeviceRow]) -> list[DeviceRow]:
    """Those that nobody has: no job of ours, and no stranger that computes there.

    The only device of a machine may drive its display, and somebody is there always.
    """
    shown = len(rows) == 1 and rows[0].facts.display
    return [
        row
        for row in rows
        if not row.jobs and (shown or all(one.job_id for one in row.processes))
    ]


def tell_free(gpus: int, free: Sequence[DeviceRow], rows: Sequence[DeviceRow]) -> str:
    """`2 wanted, of 4 devices 1 is free: nvml:3`."""
    wanted = "all" if gpus == ALL else str(gpus)
    names = ", ".join(f"{row.facts.kind}:{row.facts.index}" for row in _in_order(free))
    are = "is" if len(free) == 1 else "are"
    counted = f"{len(free)} {are} free: {names}" if free else "none is free"
    return f"{wanted} wanted, of {counted_devices(len(rows))} {counted}"


def counted_devices(gpus: int) -> str:
    """`1 device`, `2 devices`, `all devices`."""
    if gpus == ALL:
        return "all devices"
    return f"{gpus} device{'' if gpus == 1 else 's'}"


def _in_order(rows: Sequence[DeviceRow]) -> list[DeviceRow]:
    return sorted(rows, key=lambda row: (row.facts.kind, row.facts.index))


def _indices(rows: Sequence[DeviceRow]) -> str:
    return ", ".join(str(row.facts.index) for row in _in_order(rows))
