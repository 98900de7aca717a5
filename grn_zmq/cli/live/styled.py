"""Lines for a terminal: pieces of text with a style each, measured in cells of the screen."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ..tables import columns_of, cut_to

# What terminals call them ("select graphic rendition"); each style also has a character or a
# word of its own wherever it is used, for those who see no colour.
_CODES: Final[Mapping[str, str]] = {
    "strong": "1",
    "faint": "2",
    "chosen": "7",
    "bad": "31",
    "used": "32",
    "warning": "33",
    "foreign": "35",
    "leased": "36",
}

# For terminals that do not know more; every character of ours that is not in ASCII.
_ASCII: Final = str.maketrans(
    {"█": "#", "░": "-", "×": "x", "·": ".", "…": "~", "°": " ", "↑": "^", "↓": "v"}
)


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    style: str = ""


Line = Sequence[Span]


def clipped(text: str, width: int) -> str:
    """Give as much of a text as fits, the last cell a mark if that is not all."""
    return cut_to(text, width) if width > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Give a text of exactly this width, with the text at its left or its right end."""
    text = clipped(text, width)
    gap = " " * (width - columns_of(text))
    return f"{gap}{text}" if right else f"{text}{gap}"


def clipped_line(line: Line, width: int) -> list[Span]:
    """Give as much of a line as fits."""
    kept: list[Span] = []
    for span in line:
        text = clipped(span.text, width)
        kept.append(Span(text, span.style))
        width -= columns_of(text)
        if text != span.text:
            break
    return kept


def plain(line: Line) -> str:
    """The text alone, for files and for those who look for words."""
    return "".join(span.text for span in line).rstrip()


def painted(line: Line) -> str:
    """The text with the codes of its styles."""
    return "".join(
        f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text else text
        for text, style in line
    )


def filled(line: Line, width: int, *, colour: bool) -> str:
    """The text, painted or not, as wide as the screen: it covers what was there before."""
    gap = width - sum(columns_of(span.text) for span in line)
    text = painted(line) if colour else "".join(span.text for span in line)
    return f"{text}{' ' * gap}"


def in_ascii(text: str) -> str:
    """The same for a terminal that knows ASCII only."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()
