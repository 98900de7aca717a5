"""What the next job of a kind is promised, and why, in words."""

from typing import Any, Final

from ...facts import CellRow, ProfileRow
from ...units import format_bytes, format_seconds

# What the broker adds to every figure that is not a measured peak.
MARGIN: Final = 1.08
ON_TOP: Final = "and 8 % on top"

_WHY: Final = {
    "": "nothing is known of its need: the next run is measured, alone on a device",
    "modelled": f"what runs with smaller and larger values took, a line between them, {ON_TOP}",
    "extrapolated": "a guess from runs with other values; each run makes it better",
    "lower bound": f"no run has succeeded: the most that failed ones wanted, {ON_TOP}",
    "stand-in": f"set by hand or taken by a stand-in, {ON_TOP}; the first real run replaces it",
    "settled": f"what a run that goes on uses and has stopped to outgrow, {ON_TOP}",
}


def why(row: ProfileRow) -> str:
    """Where the figure comes from that the next such job is promised."""
    if row.kind != "lower bound" and _raised(row):
        return f"a run is known to have wanted {format_bytes(row.bound_bytes)}, {ON_TOP}"
    if row.kind == "measured" and row.runs:
        return f"the most that {row.runs:,} runs took" if row.runs > 1 else "what one run took"
    if row.kind == "measured":
        return f"the most that runs on other models of device took, {ON_TOP}"
    return _WHY.get(row.kind, row.kind)


def _raised(row: ProfileRow) -> bool:
    """Whether the figure is what failures and growth have taught, not what was measured."""
    return row.bound_bytes > 0 and row.predicted_bytes == int(row.bound_bytes * MARGIN)


def sheet(row: ProfileRow, cell: CellRow) -> list[tuple[str, str]]:
    """All that is known of one cell, a label and a text each; what is not is left out."""
    promised = f"{format_bytes(row.predicted_bytes)}: " if row.predicted_bytes else ""
    lines = [("promised", f"{promised}{why(row)}"), ("runs", _runs(cell))]
    if row.runs:
        mean = format_bytes(row.mean_bytes)
        lines.append(("peak", f"{format_bytes(row.peak_bytes)} at most, {mean} on average"))
    if row.need_bytes:
        lines.append(("need", f"{format_bytes(row.need_bytes)} would have been enough"))
    if row.bound_bytes:
        bound = format_bytes(row.bound_bytes)
        lines.append(("bound", f"{bound}, wanted by runs that failed or outgrew their promise"))
    if row.ooms or row.failures:
        ends = f"{row.ooms} out of memory, {row.failures} otherwise"
        lines.append(("failures", ends))
    if row.duration_s:
        last = " in the last two runs" if cell.before_s else ""
        alone = f", {format_seconds(cell.solo_s)} alone on a device" if cell.solo_s else ""
        lines.append(("run time", f"{format_seconds(row.duration_s)}{last}{alone}"))
    if row.runs:
        mean = f"{cell.mean_utilisation:.0%}"
        lines.append(("utilisation", f"{row.utilisation:.0%} at most, {mean} on average"))
    return lines


def _runs(cell: CellRow) -> str:
    if cell.trust == cell.runs:
        return str(cell.runs)
    return f"{cell.runs}, of other code than now: they count as {cell.trust}"


def by_text(by: dict[str, Any]) -> str:
    """`batch_size=32, width=4`; nothing without values."""
    return ", ".join(f"{name}={value}" for name, value in sorted(by.items()))
