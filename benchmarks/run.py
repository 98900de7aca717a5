"""Which contender is measured at which row, one after the other."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.claims import ORDER
from benchmarks.peers import PEERS
from grn_zmq.bench.figures import ECHO, OURS, Book
from grn_zmq.bench.running import Tell, runner
from grn_zmq.bench.sizes import Size

ROOT: Final = Path(__file__).parents[1]
ENTRY: Final = (sys.executable, "-m", "benchmarks.child")
# The echo takes part in these, with frames that are not copied.
BULK: Final = ("payload", "large")
# What a row needs that is not a contender.
NEEDS: Final = {"warm": "torch"}


def contenders(row: str, peers: Sequence[str]) -> list[str]:
    """Who takes part in a row, ourselves first."""
    limit = [ECHO] if row in BULK else []
    return [OURS, *limit, *(name for name in peers if row in PEERS[name].rows)]


def missing(rows: Sequence[str], peers: Sequence[str]) -> dict[str, str]:
    """Which rows and peers cannot be measured here, and why."""
    found = {
        row: f"{package} is not installed"
        for row, package in NEEDS.items()
        if row in rows and find_spec(package) is None
    }
    for name in peers:
        if lacking := PEERS[name].lacks():
            found[name] = f"{', '.join(lacking)} not installed"
    return found


def measure(
    rows: Sequence[str],
    peers: Sequence[str],
    size: Size,
    tell: Tell,
    keep: Callable[[Book], None],
) -> Book:
    """Measure all that can be; `keep` has the book after each, should the next not end."""
    book = Book(missing=missing(rows, peers))
    there = [name for name in peers if name not in book.missing]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with runner(size, tell) as running:
        for row in (one for one in ORDER if one in rows and one not in book.missing):
            for name in contenders(row, there):
                found = running.measure(row, name, ENTRY, {"PYTHONPATH": path})
                book.measured.append(found)
                keep(book)
    return book
