"""What `grn bench` measures: all that needs nobody else's programs."""

from collections.abc import Collection
from typing import Final

from .claims import Judged, judge, own_claims
from .figures import ECHO, OURS, Book
from .running import Tell, runner
from .sizes import Size

# Each with the line that says what it is.
ROWS: Final = {
    "noop": "no-op jobs, many in flight",
    "latency": "one call in flight",
    "alone": "one job per worker at a time",
    "spawn": "jobs handed over for good",
    "payload": "payloads of 1 MiB",
    "deep": "a long queue",
    "first": "from nothing running to a first result",
    "commands": "commands that do nothing",
    "idle": "processor time of idle daemons",
}


def measure_own(rows: Collection[str], size: Size, tell: Tell) -> tuple[Book, list[Judged]]:
    """Measure these rows of ours, one after the other."""
    book = Book()
    with runner(size, tell) as running:
        for row in (one for one in ROWS if one in rows):
            book.measured.append(running.measure(row, OURS))
            if row == "payload":
                book.measured.append(running.measure(row, ECHO))
    return book, [judge(one, book) for one in own_claims(size) if one.row in rows]
