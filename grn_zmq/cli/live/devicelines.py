"""The devices of the live view, a line each: memory as a bar, and figures."""

from collections.abc import Sequence
from typing import Final

from ...facts import DeviceRow
from ..common import counted, printable
from ..listing import device_name, load_or_dash, short_names
from .bars import LEGEND, bar, short_bytes
from .columns import Column, cells_of, fitting, header_of, width_of
from .styled import Line, Span, padded

_LABEL: Final = 7
# Shorter bars say nothing; longer ones say no more.
_LEAST_BAR: Final = 16
_MOST_BAR: Final = 44
# A space and a bracket before the bar, a bracket behind it.
_AROUND_BAR: Final = 3
# With so much room left the name of the device is shown, too.
_LEAST_NAME: Final = 12

_FIGURES: Final[Sequence[Column[DeviceRow]]] = (
    Column("TOTAL", 6, 1, lambda row: short_bytes(row.facts.total_bytes)),
    Column("USED", 5, 0, lambda row: short_bytes(row.used_bytes)),
    Column("LEASED", 6, 5, lambda row: short_bytes(row.leased_bytes)),
    Column("OTHERS", 6, 6, lambda row: short_bytes(row.foreign_bytes)),
    Column("UTIL", 4, 3, load_or_dash),
    Column("TEMP", 5, 4, lambda row: _temperature(row)),
    Column("JOBS", 5, 2, lambda row: f"{row.jobs}{f'/{row.max_jobs}' if row.max_jobs else ''}"),
)


def device_lines(devices: Sequence[DeviceRow], width: int, most: int) -> list[Line]:
    """Give a header, a line for each of at most `most` devices, and what the bars mean."""
    figures = _fitting(devices, width)
    room = width - _LABEL - _AROUND_BAR - width_of(figures)
    length = max(0, min(_MOST_BAR, room))
    named = room - length >= _LEAST_NAME
    memory = padded(" MEMORY", length + _AROUND_BAR)
    header = f"{padded('DEVICE', _LABEL)}{memory}{header_of(figures)}"
    lines: list[Line] = [[Span(f"{header}{'  NAME' if named else ''}", "strong")]]
    shown = devices if len(devices) <= most else devices[: max(0, most - 1)]
    names = short_names(row.measuring for row in shown)
    for row in shown:
        label = padded(device_name(row), _LABEL)
        text = cells_of(figures, row)
        text += f"  {_name(row, names[row.measuring])}" if named else ""
        lines.append([Span(f"{label} ["), *bar(row, length), Span(f"]{text}")])
    if len(shown) < len(devices) and most:
        more = counted(len(devices) - len(shown), "more device")
        lines.append([Span(f"… and {more}", "faint")])
    return [*lines, _legend()]


def _fitting(devices: Sequence[DeviceRow], width: int) -> list[Column[DeviceRow]]:
    warm = any(row.temperature_c is not None for row in devices)
    figures = [one for one in _FIGURES if warm or one.header != "TEMP"]
    return fitting(figures, width - _LABEL - _AROUND_BAR - _LEAST_BAR)


def _temperature(row: DeviceRow) -> str:
    return "-" if row.temperature_c is None else f"{row.temperature_c}°C"


def _name(row: DeviceRow, measuring: str) -> str:
    return printable(f"{row.facts.name}{f', measuring {measuring}' if measuring else ''}")


def _legend() -> Line:
    line = [Span(" " * (_LABEL + 2))]
    for part in LEGEND:
        line += [Span(part.character, part.style), Span(f" {part.word}   ", "faint")]
    return line
