"""Divide this machine's memory into host devices. Pure."""

import re
from typing import Final

from grn_zmq.errors import DeviceError
from grn_zmq.units import MIB, format_bytes, parse_bytes

DEFAULT_COUNT: Final = 2
# What all devices together take of the available memory if nobody says how much.
_SHARED_PERCENT: Final = 80
_MOST_DEVICES: Final = 1024
_FORMS: Final = "host, host:4, host:4x2GiB or host:1000MiB,500MiB"


def sizes(text: str, *, available_bytes: int, physical_bytes: int) -> list[int]:
    """Return the size of each host device.

    Args:
        text: What is written behind `host:`; empty for the default.

    Raises:
        DeviceError: It is no such list, or asks for more than the machine has.
    """
    if not text:
        return _equal(DEFAULT_COUNT, available_bytes)
    if text.isascii() and text.isdigit():
        return _equal(_count(text, text), available_bytes)
    wanted = [size for part in text.split(",") for size in _part(part, text)]
    if len(wanted) > _MOST_DEVICES:
        raise _refusal(text, f"more than {_MOST_DEVICES} devices")
    if sum(wanted) > physical_bytes:
        raise _refusal(
            text,
            f"together {format_bytes(sum(wanted))}, but this machine has "
            f"{format_bytes(physical_bytes)} of memory",
        )
    return wanted


def _equal(count: int, available_bytes: int) -> list[int]:
    each = available_bytes * _SHARED_PERCENT // 100 // count // MIB * MIB
    if each < MIB:
        raise DeviceError(
            f"{format_bytes(available_bytes)} of available memory is too little for "
            f"{count} host devices: free some, or say fewer with --devices host:1"
        )
    return [each] * count


def _part(part: str, text: str) -> list[int]:
    match = re.fullmatch(r"\s*(?:([0-9]+)\s*[xX*])?(.*)", part, re.ASCII)
    count = _count(match[1], text) if match and match[1] else 1
    try:
        size = parse_bytes(match[2] if match else part)
    except ValueError as error:
        raise _refusal(text, str(error)) from None
    if size < MIB:
        raise _refusal(text, f"{format_bytes(size)} is too small for a device")
    return [size] * count


def _count(digits: str, text: str) -> int:
    if len(digits) > len(str(_MOST_DEVICES)) or not 1 <= int(digits) <= _MOST_DEVICES:
        raise _refusal(text, f"the number of devices must be 1 to {_MOST_DEVICES}")
    return int(digits)


def _refusal(text: str, why: str) -> DeviceError:
    return DeviceError(f"--devices host:{text} cannot be used: {why}; write {_FORMS}")
