"""Measurements that leave and enter whole: for export, import and what people set."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import batches, share_of_message
from grn_zmq.cellbounds import MOST
from grn_zmq.facts import CellRow
from grn_zmq.limits import MAX_NAME
from grn_zmq.records import require_scalar
from grn_zmq.requiring import require

from .book import Book
from .cells import By, Cell, CellId, key_of
from .effects import Effect, Note, Send
from .listing import ROWS_PER_MESSAGE
from .peers import Session
from .profiles import MOST_CELLS, MOST_TYPES

# Models of device that one kind of job may be known on.
MOST_CLASSES: Final = 100

_KINDS: Final = {one.name: type(getattr(Cell(), one.name)) for one in fields(Cell)}


class Exchange:
    """Gives what was measured, cell by cell, and takes such cells instead of its own."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def cells(self, session: Session, message: wire.AskCells) -> list[Effect]:
        # In an order that does not depend on what was seen last: pages must fit together.
        named = [one for one in self._book.profiles if one[0].job_type and one[0].device_class]
        found = sorted(named, key=lambda one: repr(one[0]))[message.after :]
        rows = [cell_row(*one) for one in found[:ROWS_PER_MESSAGE]]
        page = next(batches([(row, _share(row)) for row in rows], most=ROWS_PER_MESSAGE), [])
        return [Send(session.peer, wire.CellsAre(tuple(page), more=len(found) > len(page)))]

    def put(self, session: Session, message: wire.PutCells, now: float) -> list[Effect]:
        """Take all of these cells, or none. Leases that were granted stay as they are."""
        why = _unfit(message.rows) or self._too_many(message.rows)
        if why:
            return [Send(session.peer, wire.Refused("bad-request", why, ()))]
        for row in message.rows:
            cell = Cell(**{name: getattr(row, name) for name in _KINDS})
            self._book.profiles.restore(_id_of(row), cell)
            self._book.changes.remember(_id_of(row), cell)
        self._book.stirred = True
        types = tuple(dict.fromkeys(row.job_type for row in message.rows))
        return [
            Note("took profiles", {"profiles": len(message.rows)}),
            Send(session.peer, wire.Acted(types, ())),
        ]

    def _too_many(self, rows: Iterable[CellRow]) -> str:
        """Say why there is no room for them: what was measured must not go for them."""
        kinds: dict[str, dict[By, set[str]]] = defaultdict(lambda: defaultdict(set))
        for one in (*(cell_id for cell_id, _ in self._book.profiles), *map(_id_of, rows)):
            kinds[one.job_type][one.by].add(one.device_class)
        if len(kinds) > MOST_TYPES:
            return f"{len(kinds)} job types would be known, {MOST_TYPES} can be: forget some"
        for job_type in {row.job_type for row in rows}:
            values = len(kinds[job_type])
            if values > MOST_CELLS:
                return (
                    f"{job_type[:80]} would be known for {values} different values, "
                    f"{MOST_CELLS} can be: forget it first, or take fewer"
                )
            models = max(map(len, kinds[job_type].values()))
            if models > MOST_CLASSES:
                return (
                    f"{job_type[:80]} would be known on {models} device classes, "
                    f"{MOST_CLASSES} can be: forget it first, or take fewer"
                )
        return ""


def cell_row(cell_id: CellId, cell: Cell) -> CellRow:
    """A cell as it travels; figures out of all bounds are cut, so that it can come back."""
    figures = {name: min(getattr(cell, name), most) for name, most in MOST.items()}
    figures["trust"] = min(figures["trust"], figures["runs"])
    return CellRow(
        job_type=cell_id.job_type,
        by=dict(cell_id.by),
        device_class=cell_id.device_class,
        devices=cell_id.devices,
        version=cell.version,
        **{name: _KINDS[name](figure) for name, figure in figures.items()},
    )


def _id_of(row: CellRow) -> CellId:
    return CellId(*key_of(row.job_type, row.by), row.device_class)


def _share(row: CellRow) -> float:
    values = map(str, row.by.values())
    return share_of_message(row.job_type, row.device_class, row.version, *row.by, *values)


def _unfit(rows: Iterable[CellRow]) -> str:
    """Say which of them cannot have been measured, and why."""
    for at, row in enumerate(rows, start=1):
        try:
            _check(row)
        except ValueError as error:
            return f"profile {at} ({row.job_type[:80]}): {error}"
    return ""


def _check(row: CellRow) -> None:
    require(row.devices == 1, f"devices is {row.devices}, only 1 can be known")
    for text in (row.job_type, row.device_class, row.version, *row.by):
        require(len(text) <= MAX_NAME, f"a text has more than {MAX_NAME} characters")
    for name, most in MOST.items():
        figure = getattr(row, name)
        require(0 <= figure <= most, f"{name} is {figure:g}, not from 0 to {most:g}")
    for value in row.by.values():
        require_scalar(value)
