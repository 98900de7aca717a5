"""The figures for people: a line for each claim, a line for each contender."""

from collections.abc import Sequence
from typing import Final

from .claims import Judged
from .figures import ECHO, Book, ratio

CLAIM_HEADERS: Final = ("MEASURED", "SEEN", "MUST", "AIM", "REACHED")
CONTENDER_HEADERS: Final = (
    "CONTENDER", "JOBS/S", "x R", "SUBMITS/S", "P50", "x L", "1 MiB MB/S", "LARGE", "START",
)  # fmt: skip
NONE: Final = "-"
REACHED: Final = {"aim": "aim", "must": "must", "no": "NO", "missing": "not measured", "": NONE}


def number(value: float | None) -> str:
    """Three digits that count: 12,300, 1.23, 0.0123."""
    if value is None:
        return NONE
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def claim_rows(judged: Sequence[Judged]) -> list[list[str]]:
    return [
        [
            one.claim.text,
            f"{number(one.seen)} {one.claim.unit}".strip() if one.seen is not None else NONE,
            _bound(one.claim.must, one.claim.at_most),
            _bound(one.claim.aim, one.claim.at_most),
            REACHED[one.verdict],
        ]
        for one in judged
    ]


def _bound(value: float | None, at_most: bool) -> str:
    return NONE if value is None else f"{'<=' if at_most else '>='} {value:,g}"


def contender_rows(book: Book) -> list[list[str]]:
    """Who did the same work, beside the echo of that moment; the echo itself comes first."""
    rate, p50_s = book.limit()
    limit = [
        "bare echo",
        number(rate),
        "1",
        NONE,
        microseconds(p50_s),
        "1",
        *_bulk(book, ECHO),
    ]
    others = (_contender_row(book, one) for one in book.contenders() if one != ECHO)
    return [limit, *(row for row in others if set(row[1:]) != {NONE})]


def _contender_row(book: Book, name: str) -> list[str]:
    noop, latency = book.find("noop", name), book.find("latency", name)
    rate = noop.median("rate") if noop else None
    p50_s = latency.median("p50_s") if latency else None
    return [
        name,
        number(rate),
        number(ratio(rate, noop.echo_rate if noop else None)),
        number(noop.median("submits") if noop else None),
        microseconds(p50_s),
        number(ratio(p50_s, latency.echo_p50_s if latency else None)),
        *_bulk(book, name),
    ]


def _bulk(book: Book, name: str) -> list[str]:
    return [
        number(book.median("payload", name, "mb_per_s")),
        seconds(book.median("large", name, "seconds")),
        seconds(book.median("first", name, "function_s")),
    ]


def microseconds(value_s: float | None) -> str:
    return NONE if value_s is None else f"{value_s * 1e6:,.0f} us"


def seconds(value_s: float | None) -> str:
    return NONE if value_s is None else f"{value_s:.2f} s"


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table for a terminal."""
    lines = [headers, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [cell.ljust(width) for cell, width in zip(one, widths, strict=True)] for one in lines
    )
    return ["  ".join(cells).rstrip() for cells in padded]


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The same table for README."""
    lines = [headers, ["---"] * len(headers), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
