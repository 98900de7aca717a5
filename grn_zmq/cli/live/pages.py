"""Pages that the live view shows instead of the list: help, and what a job prints."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from ...facts import JobRow
from ..common import printable
from ..listing import called
from .styled import Line, Span, clipped_line

# What is scrolled away is in the log itself: `grn logs`.
KEPT_LINES: Final = 1000
_TAB: Final = 8
# Colours and the like in what jobs print.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)

HELP: Final = (
    ("↑ ↓ k j", "choose a job"),
    ("PgUp PgDn Home End", "the same in larger steps"),
    ("c", "cancel the chosen job: TERM, its grace, KILL (asks first)"),
    ("l or Enter", "follow what it prints; q or Esc comes back"),
    ("h", "hold the chosen job, if it waits, or release it"),
    ("p", "pause the queue: no more jobs start; again: go on"),
    ("?", "this page"),
    ("q", "quit"),
)
WATCHING_HELP: Final = (*HELP[:2], *HELP[-2:])


def help_page(keys: Sequence[tuple[str, str]], width: int, height: int) -> list[list[Span]]:
    """Give a page that says what keys do and what columns mean."""
    lines: list[Line] = [[Span("Keys", "strong")]]
    lines += [[Span(f"  {key:<20}"), Span(what)] for key, what in keys]
    lines += [
        (),
        [Span("Memory", "strong")],
        [Span("  used                what jobs use now, as measured")],
        [Span("  leased              what they were promised, as far as they do not use it")],
        [Span("  others              what programs use that are no jobs of this broker")],
        [Span("  PRED                what a job was expected to use when it was placed")],
    ]
    return _filled(lines, [Span("any key: back", "faint")], width, height)


class LogPane:
    """The end of what a job printed, as lines."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._open = ""

    def add(self, text: str) -> None:
        """Take what was printed next; a line may come in pieces."""
        *whole, self._open = (self._open + text).split("\n")
        self._lines.extend(whole)

    def last(self, count: int) -> list[str]:
        """The last lines, as they look on a screen."""
        lines = [*self._lines, self._open] if self._open else list(self._lines)
        return [_as_seen(line) for line in lines[-count:]] if count > 0 else []


def _as_seen(line: str) -> str:
    """Of a line that was written over again, such as a progress bar, what was left."""
    text = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return printable(text.expandtabs(_TAB))


def log_page(row: JobRow, pane: LogPane, width: int, height: int) -> list[list[Span]]:
    """Give a page with the end of what a job has printed."""
    lines: list[Line] = [[Span(f"job {row.number} {printable(called(row))}", "strong")]]
    found = pane.last(height - 2)
    lines += [[Span(text)] for text in found] or [[Span("nothing printed yet", "faint")]]
    return _filled(lines, [Span("q or Esc: back to the list", "faint")], width, height)


def _filled(lines: list[Line], footer: Line, width: int, height: int) -> list[list[Span]]:
    lines = lines[: max(0, height - 1)]
    lines += [()] * (height - 1 - len(lines))
    return [clipped_line(line, width) for line in [*lines, footer][:height]]
