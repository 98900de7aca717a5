"""One picture of a run: who does how many jobs a second, and how long one takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from grn_zmq.bench.figures import Book
from grn_zmq.bench.tables import number

OURS_COLOUR: Final = "#1b7f5c"
LIMIT_COLOUR: Final = "#444444"
PEER_COLOUR: Final = "#9db4c0"
# Small enough for README, and sharp enough to be read there.
DPI: Final = 110


def bars(book: Book) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Jobs per second, most first, and milliseconds for one, fewest first."""
    rate, p50_s = book.limit()
    rates = [("bare echo", rate)] if rate else []
    times = [("bare echo", p50_s * 1e3)] if p50_s else []
    for name in book.contenders():
        if found := book.median("noop", name, "rate"):
            rates.append((name, found))
        if found := book.median("latency", name, "p50_s"):
            times.append((name, found * 1e3))
    return sorted(rates, key=lambda one: -one[1]), sorted(times, key=lambda one: one[1])


def plot(book: Book, path: Path) -> None:
    """Write the picture as PNG.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    rates, times = bars(book)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw(left, rates, "no-op jobs per second, many in flight")
    _draw(right, times, "milliseconds for one call, p50")
    figure.savefig(path, dpi=DPI, metadata={"Software": None})


def _draw(axes: Any, values: Sequence[tuple[str, float]], title: str) -> None:
    names = [name for name, _ in values]
    colours = [_colour(name) for name in names]
    drawn = axes.barh(names, [value for _, value in values], color=colours)
    axes.bar_label(drawn, labels=[number(value) for _, value in values], padding=3)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _colour(name: str) -> str:
    return {"ours": OURS_COLOUR, "bare echo": LIMIT_COLOUR}.get(name, PEER_COLOUR)
