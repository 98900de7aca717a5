"""The jobs of the live view, a line each, and one of them in its own words."""

from collections.abc import Sequence
from typing import Final

from ...facts import JobRow
from ...units import format_bytes, format_seconds
from ..common import printable
from ..listing import called
from ..states import reason_of, state_of
from ..tables import columns_of
from ..when import has_begun
from .bars import short_bytes
from .columns import Column, cells_of, fitting, header_of, width_of
from .styled import Line, Span, padded

_STYLES: Final = {"queued": "faint", "held": "warning", "measuring": "leased"}
# Of what names and reasons share, names have this part at most.
_NAMES: Final = 0.4
_LEAST_TEXT: Final = 16
_GAP: Final = "  "

_COLUMNS: Final[Sequence[Column[JobRow]]] = (
    Column("JOB", 5, 0, lambda row: str(row.number)),
    Column("STATE", 11, 1, lambda row: word_of(row), right=False),
    Column("DEVICE", 9, 2, lambda row: row.device or "-", right=False),
    Column("LEASE", 5, 5, lambda row: short_bytes(row.lease_bytes)),
    Column("USED", 5, 3, lambda row: short_bytes(row.used_bytes)),
    Column("PRED", 5, 6, lambda row: short_bytes(row.predicted_bytes)),
    Column("RUN", 7, 4, lambda row: format_seconds(row.run_s) if has_begun(row) else "-"),
)


def job_lines(rows: Sequence[JobRow], width: int, chosen: int) -> list[Line]:
    """Give a header and a line for each row; `chosen` is the place of the chosen one."""
    columns = fitting(_COLUMNS, width - _LEAST_TEXT)
    room = max(0, width - width_of(columns) - 1 - len(_GAP))
    names = {row.job_id: printable(called(row)) for row in rows}
    reasons = {row.job_id: reason_of(row) for row in rows}
    longest = max([4, *(columns_of(names[one]) for one, reason in reasons.items() if reason)])
    before_why = min(longest, int(room * _NAMES))
    texts = "NAME"
    if any(reasons.values()):
        texts = f"{padded('NAME', before_why)}{_GAP}WHY"
    lines: list[Line] = [[Span(f" {header_of(columns)}{_GAP}{texts}", "strong")]]
    for place, row in enumerate(rows):
        texts = names[row.job_id]
        if reason := reasons[row.job_id]:
            texts = f"{padded(texts, before_why)}{_GAP}{printable(reason)}"
        mark, style = (">", "chosen") if place == chosen else (" ", _style_of(row))
        text = f"{mark}{cells_of(columns, row)}{_GAP}{padded(texts, room)}"
        lines.append([Span(text, style)])
    return lines


def _style_of(row: JobRow) -> str:
    return _STYLES.get(word_of(row).partition(" ")[0], "")


def word_of(row: JobRow) -> str:
    """`running`, or what is unusual about it: `measuring`, `held`, `running 2` in attempt 2."""
    word = "measuring" if row.measuring else state_of(row)
    return f"{word} {row.attempt}" if row.attempt > 1 else word


def told_of(row: JobRow) -> str:
    """A job in one line: why it waits, or what there is no column for; then its whole name."""
    facts = [reason_of(row) or f"waited {format_seconds(row.wait_s)}"]
    if row.peak_bytes:
        facts.append(f"peak {format_bytes(row.peak_bytes)}")
    if row.pid:
        facts.append(f"pid {row.pid}")
    if row.priority:
        facts.append(f"priority {row.priority}")
    return f"job {row.number}: {', '.join(facts)}; {called(row)}"
