"""A line at a job's end, from its outcome: what it used, what was expected, how many fit."""

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from .naming import printable, short_type
from .records import JobSpec, Outcome
from .terminal import OutputWriter
from .units import format_bytes

# How often at most one job type has a line: a map of a thousand calls shall not print as many.
PAUSE_S: Final = 5.0
# Long commands would wrap.
MAX_NAME: Final = 60

_TOLD: Final = frozenset({"succeeded", "failed", "oom"})


def line_of(outcome: Outcome, spec: JobSpec | None) -> str:
    """`grn: train.py::fit used 4.2 GiB (predicted 4.5 GiB), 3 fit on nvml:0; ran 12.3 s`."""
    name = printable(short_type(spec.job_type)) if spec else f"job {outcome.job_id[:8]}"
    if len(name) > MAX_NAME:
        name = f"{name[: MAX_NAME - 1]}…"
    tries = f" in attempt {outcome.attempts}" if outcome.attempts > 1 else ""
    return f"grn: {name} {_figures(outcome)}; ran {_duration(outcome.run_s)}{tries}\n"


def _figures(outcome: Outcome) -> str:
    predicted = (
        f"predicted {format_bytes(outcome.predicted_bytes)}"
        if outcome.predicted_bytes
        else "not known before"
    )
    used = format_bytes(outcome.peak_bytes) if outcome.seen else "no memory that could be seen"
    verb = "ran out of memory at" if outcome.outcome == "oom" else "used"
    fits = f"{outcome.fit} fit on" if outcome.fit else "on"
    return f"{verb} {used} ({predicted}), {fits} {outcome.device}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(slots=True)
class _OfType:
    """What was last told of a job type, and what is still to be told."""

    figures: tuple[str, int, int] = ("", -1, -1)
    told_at: float = -PAUSE_S
    held: str = ""


@dataclass(slots=True)
class Receipts:
    """Decides which lines are shown: for commands all, for calls what has changed."""

    _types: dict[str, _OfType] = field(default_factory=dict)

    def add(self, outcome: Outcome, spec: JobSpec | None, now: float) -> list[str]:
        """A job has ended; give the lines to show now."""
        if outcome.outcome not in _TOLD or not outcome.device:
            return []
        if spec is None or spec.kind == "command":
            return [line_of(outcome, spec)]
        of_type = self._types.setdefault(spec.job_type, _OfType())
        figures = (format_bytes(outcome.peak_bytes), outcome.predicted_bytes, outcome.fit)
        if figures != of_type.figures:
            of_type.figures = figures
            of_type.held = line_of(outcome, spec)
        return self._due(now)

    def _due(self, now: float) -> list[str]:
        due = [one for one in self._types.values() if one.held and now - one.told_at >= PAUSE_S]
        lines = [one.held for one in due]
        for one in due:
            one.held, one.told_at = "", now
        return lines

    def rest(self) -> list[str]:
        """Give what was held back: the last figures are always told."""
        return self._due(float("inf"))


class Reporter:
    """Writes the lines to stderr: on a terminal, or as `GRN_REPORT` says."""

    def __init__(self, output: OutputWriter, setting: str) -> None:
        """Take the value of `GRN_REPORT`: 1 for always, 0 for never, empty for terminals."""
        self._output = output
        self._setting = setting
        self._receipts = Receipts()
        self._lock = threading.Lock()

    def job_ended(self, outcome: Outcome, spec: JobSpec | None) -> None:
        if self._wanted():
            with self._lock:
                lines = self._receipts.add(outcome, spec, time.monotonic())
            self._show(lines)

    def close(self) -> None:
        """Show what was held back."""
        with self._lock:
            lines = self._receipts.rest()
        self._show(lines)

    def _wanted(self) -> bool:
        if self._setting in ("0", "1"):
            return self._setting == "1"
        try:
            return sys.stderr.isatty()
        except (AttributeError, ValueError):
            return False  # there is none, or it is closed

    def _show(self, lines: list[str]) -> None:
        for line in lines:
            self._output.write("", "stderr", line.encode(errors="replace"))
