"""Tables that fit the terminal they are read on; elsewhere nothing is cut or coloured."""

import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

import click

from ..naming import printable
from .common import flush, is_terminal, say

GAP: Final = "  "
# A column that is cut shows at least so much, if there is any room at all.
LEAST: Final = 6
# How the two last columns share what room there is.
SHARE_OF_FIRST: Final = 0.4


def print_fitted(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    elastic: int = 1,
    colour_of: Callable[[Sequence[str]], str | None] = lambda _: None,
    coloured: int = 0,
) -> None:
    """Print aligned columns, the last ones cut to what the terminal has room for.

    Args:
        elastic: How many of the last columns may be cut, 1 or 2.
        colour_of: The colour of a row's cell in the column `coloured`, on a terminal.
    """
    width = terminal_width()
    colours = use_colours()
    fitted = fit([list(headers), *(list(map(printable, row)) for row in rows)], elastic, width)
    say(click.style(_join(fitted[0]), bold=True) if colours else _join(fitted[0]))
    for row, cells in zip(rows, fitted[1:], strict=True):
        colour = colour_of(row) if colours else None
        if colour:
            cells[coloured] = click.style(cells[coloured], fg=colour)
        say(_join(cells))
    flush()


def terminal_width() -> int | None:
    """How many characters a line of the terminal has; None if stdout is none."""
    size = _terminal_size()
    return size.columns or None if size else None


def terminal_lines() -> int | None:
    """How many lines the terminal has; None if stdout is none."""
    size = _terminal_size()
    return size.lines or None if size else None


def _terminal_size() -> os.terminal_size | None:
    if not is_terminal(sys.stdout):
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return None


def use_colours() -> bool:
    """Whether stdout is a terminal that takes colours, and its user wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and is_terminal(sys.stdout)


def fit(table: Sequence[Sequence[str]], elastic: int, width: int | None) -> list[list[str]]:
    """Pad the cells of each column, and cut those of the last ones to the width."""
    widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
    if width is not None:
        widths = _shrink(widths, elastic, width)
    cut = [list(map(cut_to, row, widths)) for row in table]
    return [[*map(_pad, row[:-1], widths), row[-1]] for row in cut]


def _shrink(widths: Sequence[int], elastic: int, width: int) -> list[int]:
    fixed, last = list(widths[:-elastic]), list(widths[-elastic:])
    room = width - sum(fixed) - len(GAP) * (len(widths) - 1)
    if sum(last) <= room:
        return [*fixed, *last]
    if elastic == 2:
        first = min(last[0], max(int(room * SHARE_OF_FIRST), room - last[1], LEAST))
        last = [first, max(LEAST, room - first)]
    else:
        last = [max(LEAST, room)]
    shrunk = [*fixed, *last]
    over = sum(last) - room
    for at in reversed(range(len(shrunk))):  # even the least is too much
        cut = min(max(0, over), shrunk[at])
        shrunk[at] -= cut
        over -= cut
    return shrunk


def cut_to(text: str, width: int) -> str:
    """At most so many columns of a text, an ellipsis at its end if there was more."""
    if columns_of(text) <= width:
        return text
    if not width:
        return ""
    kept = text[: width - 1]
    while kept and columns_of(kept) >= width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def columns_of(text: str) -> int:
    """How much of a line it takes: some characters take two columns, some none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text))


def _join(cells: Sequence[str]) -> str:
    return GAP.join(cells).rstrip()
