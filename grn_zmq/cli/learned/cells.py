"""Whole measurements, asked of the broker and given to it."""

from collections.abc import Sequence

from ...batches import batches, share_of_message
from ...errors import GrnError, RequestRefused
from ...facts import CellRow, ProfileRow
from ...records import Scalar
from ...wire import Acted, AskCells, CellsAre, PutCells
from ..asking import ask

# As many as a page of a list.
ROWS_PER_MESSAGE = 200

CellKey = tuple[str, tuple[tuple[str, Scalar], ...], str]


class NotAllTaken(GrnError):
    """The broker has taken some of the profiles, and then refused."""


def all_cells() -> list[CellRow]:
    """Ask for cells until there are no more, in the order of types."""
    rows: list[CellRow] = []
    more = True
    while more:
        answer = ask(AskCells(len(rows)), CellsAre)
        rows += answer.rows
        more = answer.more
    return sorted(rows, key=lambda row: (row.job_type, repr(key_of(row))))


def put_cells(rows: Sequence[CellRow]) -> None:
    """Give these cells to the broker, as many at once as fit a message."""
    taken = 0
    for part in batches([(row, share_of_cell(row)) for row in rows], most=ROWS_PER_MESSAGE):
        try:
            ask(PutCells(tuple(part)), Acted)
        except RequestRefused as error:
            if not taken:
                raise
            before = f"{taken} of {len(rows)} profiles were taken before that"
            raise NotAllTaken(f"{error} ({before})") from None
        taken += len(part)


def key_of(row: CellRow | ProfileRow) -> CellKey:
    """What tells a cell from all others."""
    return (row.job_type, tuple(sorted(row.by.items())), row.device_class)


def share_of_cell(row: CellRow) -> float:
    """The part of one message, at most, that it takes."""
    values = map(str, row.by.values())
    return share_of_message(row.job_type, row.device_class, row.version, *row.by, *values)
