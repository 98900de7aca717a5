"""Sizes in bytes and times in seconds, as people write and read them."""

import math
import re
from typing import Final

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

# As in Slurm a single letter is binary; "GB" is what is printed on a box: decimal.
_FACTORS: Final = {
    "": MIB,
    "b": 1,
    "k": KIB,
    "kib": KIB,
    "kb": 1000,
    "m": MIB,
    "mib": MIB,
    "mb": 1000**2,
    "g": GIB,
    "gib": GIB,
    "gb": 1000**3,
    "t": TIB,
    "tib": TIB,
    "tb": 1000**4,
}
_SIZE: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*)\s*", re.ASCII)
_STEPS: Final = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))

_UNITS_S: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_TIME: Final = re.compile(
    r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m(?:in)?)?(?:([0-9.]+)s?)?", re.ASCII
)
_CLOCK: Final = re.compile(
    r"(?:([0-9]{1,6}):)?([0-9]{1,2}):([0-9]{1,2}(?:\.[0-9]*)?)", re.ASCII
)


def parse_bytes(text: str) -> int:
    """Turn a size such as 512M, 8GiB or 1.5g into bytes; a bare number is MiB.

    Raises:
        ValueError: It is no size, or less than one byte. The text is named.
    """
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is no size: write 512M, 8GiB or a bare number of MiB")
    number = match[1]
    count = int(number) * factor if number.isdigit() else int(float(number) * factor)
    if count < 1:
        raise ValueError(f"{text!r} is no size: it must be more than zero")
    return count


def format_bytes(count: int) -> str:
    """Write a number of bytes for people, with one decimal: `4.0 GiB`."""
    for step, name in _STEPS:
        # What would be rounded up to 1024.0 of a unit is 1.0 of the next.
        if abs(count) >= step - step / KIB * 0.05:
            return f"{count / step:.1f} {name}"
    return f"{count} B"


def parse_seconds(value: float | str) -> float:
    """Turn a time such as 90, "90s", "15m", "1h30m", "2d" or "1:30:00" into seconds.

    Raises:
        ValueError: It is no time, or less than none. The text is named.
    """
    if isinstance(value, str):
        seconds = _seconds_in("".join(value.split()).lower())
    else:
        seconds = float(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"{value!r} is no time: write 90s, 15m, 1h30m, 2d, 1:30:00 or a number of seconds"
        )
    return seconds


def _seconds_in(text: str) -> float | None:
    if clock := _CLOCK.fullmatch(text):
        return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + float(clock[3])
    match = _TIME.fullmatch(text)
    if not text or match is None:
        return None
    try:
        counts = [float(count) if count else 0.0 for count in match.groups()]
    except ValueError:  # two points in one number
        return None
    return sum(map(float.__mul__, counts, map(float, _UNITS_S.values())))


def format_seconds(value: float) -> str:
    """Write a time for people, short enough for a column: 0.4 s, 12 s, 3:07, 2:00:05."""
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 59.5:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def spell_seconds(value: float) -> str:
    """Write a time as people write one, which `parse_seconds` reads: 12h, 1h30m, 0.5s."""
    whole, rest = divmod(value, 60)
    parts = [f"{rest:g}s"] if rest or not whole else []
    minutes = int(whole)
    for count, unit in ((minutes % 60, "m"), (minutes // 60 % 24, "h"), (minutes // 1440, "d")):
        if count:
            parts.append(f"{count}{unit}")
    return "".join(reversed(parts))
