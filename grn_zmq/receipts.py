"""A line at a job's end, from its outcome: what it used, what was expected, how many fit."""

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from .naming import printable, short_type
from .records import JobSpec, Outcome
from .terminal import OutputWriter
from .units import format_bytes, format_seconds

# How often at most one job type has a line: a map of a thousand calls shall not print as many.
PAUSE_S: Final = 5.0
# Long commands would wrap.
MAX_NAME: Final = 60

# Changes by less than this are no news, and predictions exceeded by more than that always are.
SAME: Final = 0.05
WRONG: Final = 0.2

_VERBS: Final = {
    "succeeded": "used",
    "failed": "failed; used",
    "oom": "ran out of memory at",
}


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
    verb = _VERBS[outcome.outcome]
    return f"{verb} {used} ({predicted}), {_fits(outcome)} {outcome.device}"


def _fits(outcome: Outcome) -> str:
    """How many of its like a device takes; of runs that did not succeed nobody counts it."""
    if outcome.fit:
        return f"{outcome.fit} fit on"
    measured = outcome.outcome == "succeeded" and outcome.seen and outcome.peak_bytes
    return "does not fit on" if measured else "on"


def _duration(seconds: float) -> str:
    """With a decimal below a minute: these lines are compared with each other."""
    return f"{seconds:.1f} s" if seconds < 59.95 else format_seconds(seconds)


class _Figures(NamedTuple):
    """What makes the lines of two runs differ."""

    outcome: str
    fit: int
    peak_bytes: int
    predicted_bytes: int

    def like(self, other: "_Figures") -> bool:
        """Whether they are the same to a reader."""
        return self[:2] == other[:2] and all(map(_near, self[2:], other[2:]))


def _near(one: int, other: int) -> bool:
    return abs(one - other) < SAME * max(one, other) or one == other


@dataclass(slots=True)
class _OfType:
    """What was last told of a job type, and what is still to be told."""

    figures: _Figures | None = None
    told_at: float = -PAUSE_S
    held: str = ""
    held_is_bad: bool = False


@dataclass(slots=True)
class Receipts:
    """Decides which lines are shown: for commands all, for calls what has changed."""

    _types: dict[str, _OfType] = field(default_factory=dict)

    def add(self, outcome: Outcome, spec: JobSpec | None, now: float) -> list[str]:
        """A job has ended; give the lines to show now."""
        if outcome.outcome not in _VERBS or not outcome.device:
            return []
        if spec is not None and spec.kind == "lease":
            return []  # it has whole devices, whatever it uses
        if spec is None or spec.kind == "command":
            # `grn run` reports on a command that cannot fit, with the same figures and more.
            told = spec is not None and outcome.outcome == "oom"
            return [] if told else [line_of(outcome, spec)]
        of_type = self._types.setdefault(spec.job_type, _OfType())
        # What was not predicted, and what was predicted rightly, are no different news.
        predicted = outcome.predicted_bytes or outcome.peak_bytes
        figures = _Figures(outcome.outcome, outcome.fit, outcome.peak_bytes, predicted)
        wrong = outcome.peak_bytes > (1 + WRONG) * predicted
        known = of_type.figures is not None and figures.like(of_type.figures)
        bad = wrong or outcome.outcome != "succeeded"
        # What is told later shall be the last that is known then, but bad news come first.
        if (wrong or not known or of_type.held) and bad >= of_type.held_is_bad:
            of_type.figures = figures
            of_type.held, of_type.held_is_bad = line_of(outcome, spec), bad
        return self._due(now)

    def _due(self, now: float) -> list[str]:
        due = [one for one in self._types.values() if one.held and now - one.told_at >= PAUSE_S]
        lines = [one.held for one in due]
        for one in due:
            one.held, one.held_is_bad, one.told_at = "", False, now
        return lines

    def rest(self) -> list[str]:
        """Give what was held back: the last figures are always told."""
        return self._due(float("inf"))


class Reporter:
    """Writes the lines to stderr: on a terminal, or as `GRN_REPORT` says."""

    def __init__(self, output: OutputWriter, setting: str) -> None:
        """Take the value of `GRN_REPORT`: 1 for always, 0 for never, others for terminals."""
        self._output = output
        self._setting = setting
        self._receipts = Receipts()
        self._lock = threading.Lock()

    def job_ended(self, outcome: Outcome, spec: JobSpec | None) -> None:
        if self.wanted():
            with self._lock:
                lines = self._receipts.add(outcome, spec, time.monotonic())
            self._show(lines)

    def close(self) -> None:
        """Show what was held back."""
        with self._lock:
            lines = self._receipts.rest()
        self._show(lines)

    def wanted(self) -> bool:
        """Whether anybody would read them."""
        if self._setting in ("0", "1"):
            return self._setting == "1"
        try:
            return sys.stderr.isatty()
        except (AttributeError, ValueError):
            return False  # there is none, or it is closed

    def _show(self, lines: list[str]) -> None:
        for line in lines:
            self._output.write("", "stderr", line.encode(errors="replace"))
