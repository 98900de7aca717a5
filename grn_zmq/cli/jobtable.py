"""Jobs as lines of a table."""

from collections.abc import Sequence
from typing import Final

from ..facts import JobRow
from ..units import format_seconds
from .listing import bytes_or_dash, called, part_of, short_names
from .states import CODES, FAILURES, LIVE, reason_of, result_of, state_of
from .tables import print_fitted
from .when import has_begun

HEADERS: Final = (
    *("JOB", "STATE", "DEVICE", "MEMORY", "WAIT", "RUN", "NAME", "RESULT OR REASON"),
)
# The columns of HEADERS: what is coloured, and how many of the last may be cut.
_STATE: Final = 1
_ELASTIC: Final = 2


def print_jobs(rows: Sequence[JobRow]) -> None:
    names = short_names(row.job_type for row in rows)
    lines = [cells_of(row, names[row.job_type]) for row in rows]
    print_fitted(
        HEADERS,
        lines,
        elastic=_ELASTIC,
        coloured=_STATE,
        colour_of=lambda one: colour_of_state(one[1]),
    )


def cells_of(row: JobRow, type_name: str) -> tuple[str, ...]:
    """The cells of a job; `type_name` is for one that has neither a name nor a title."""
    state = state_of(row)
    return (
        str(row.number),
        f"{CODES[state]} {state}",
        row.device or "-",
        _memory(row),
        format_seconds(row.wait_s),
        format_seconds(row.run_s) if has_begun(row) else "-",
        name_of(row, type_name),
        result_or_reason(row) or "-",
    )


def name_of(row: JobRow, type_name: str) -> str:
    """Jobs of a sweep have one name: what they run tells them apart."""
    both = f"{row.name}: {row.title}" if row.name and row.title else ""
    return both or called(row, type_name)


def _memory(row: JobRow) -> str:
    """What it uses of what it was promised; before that what is expected, later its peak."""
    if row.lease_bytes:
        return part_of(row.used_bytes, row.lease_bytes)
    return bytes_or_dash(row.predicted_bytes if row.state in LIVE else row.peak_bytes)


def result_or_reason(row: JobRow) -> str:
    """`pid 4711, measuring`, `exit 3`, `waiting for memory: …`, `attempt 2; …`."""
    notes = [result_of(row), "measuring" if row.measuring else ""]
    notes.append(f"attempt {row.attempt}" if row.attempt > 1 else "")
    return ": ".join(filter(None, (", ".join(filter(None, notes)), reason_of(row))))


def colour_of_state(cell: str) -> str | None:
    """The colour of a cell such as `R running`."""
    state = cell.partition(" ")[2]
    if state in FAILURES:
        return "red"
    return {"running": "green", "assigned": "green", "queued": "yellow", "held": "cyan"}.get(
        state
    )
