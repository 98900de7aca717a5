"""The memory of a device as a bar: what jobs use, what they were promised, what others have."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...facts import DeviceRow
from ...units import GIB, KIB, MIB, TIB
from .styled import Span

_STEPS: Final = ((TIB, "T"), (GIB, "G"), (MIB, "M"), (KIB, "K"))
# Below this a decimal says something, and fits into the column.
_SMALL: Final = 100

# What is less than one part in so many of a device is not shown in its bar.
TRACE: Final = 200


class Part(NamedTuple):
    """A part of every bar: its character is enough where there is no colour."""

    character: str
    word: str
    style: str


USED: Final = Part("█", "used", "used")
LEASED: Final = Part("░", "leased", "leased")
FOREIGN: Final = Part("×", "others", "foreign")
FREE: Final = Part("·", "free", "faint")

LEGEND: Final = (USED, LEASED, FOREIGN, FREE)


def bar(row: DeviceRow, width: int) -> list[Span]:
    """Give the bar of a device in so many cells.

    What jobs use stands first, then what they were promised beyond that, then what other
    programs have. What is more than a trace has a cell, also if its part is less than one.
    """
    used = max(0, row.used_bytes - row.foreign_bytes)
    leased = max(0, row.leased_bytes - max(0, used - row.idle_bytes))
    counts = _shares((used, leased, row.foreign_bytes), row.facts.total_bytes, width)
    free = width - sum(counts)
    parts = zip(LEGEND, (*counts, free), strict=True)
    return [Span(part.character * count, part.style) for part, count in parts if count]


def _shares(sizes: Sequence[int], total: int, width: int) -> list[int]:
    """How many cells of `width` each gets; together no more than there are."""
    width = max(0, width)
    whole = max(1, total)
    counts = [
        max(1, min(width, round(size * width / whole))) if size * TRACE >= whole else 0
        for size in sizes
    ]
    while sum(counts) > width:
        counts[counts.index(max(counts))] -= 1
    return counts


def short_bytes(size: int) -> str:
    """Write a number of bytes in five characters at most: `512M`, `1.2G`, `24G`, `-`."""
    if not size:
        return "-"
    for step, letter in _STEPS:
        if size >= step * 0.9995:
            number = size / step
            return f"{number:.{1 if number < _SMALL - 0.05 else 0}f}{letter}"
    return f"{size}B"
