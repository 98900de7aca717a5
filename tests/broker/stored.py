"""What tests of the store share: a cell to keep, and looks into the file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loguru import logger

from broker.cells import Cell, CellId
from broker.store import Store

FIT = CellId("train.py::fit", (("batch_size", 32), ("half", True)), "A100 40 GiB")
CELL = Cell(
    version="abc",
    runs=3,
    trust=2,
    mean_bytes=1.5e9,
    squares=2.5e12,
    max_bytes=2 << 30,
    need_bytes=1 << 30,
    bound_bytes=5,
    stand_in_bytes=6,
    ooms=1,
    failures=4,
    last_s=12.5,
    before_s=13.5,
    solo_s=11.5,
    utilisation=0.75,
    mean_utilisation=0.5,
)


@contextmanager
def warnings_heard() -> Iterator[list[str]]:
    """What was logged as a warning, with its facts."""
    said: list[str] = []
    sink = logger.add(
        lambda text: said.append(str(text)), level="WARNING", format="{message} {extra}"
    )
    yield said
    logger.remove(sink)


def kept(path: Path) -> dict[CellId, Cell]:
    with closing(Store(path)) as found:
        return dict(found.load())


def keep(path: Path, *cells: tuple[CellId, Cell]) -> None:
    with closing(Store(path)) as opened:
        for cell_id, cell in cells:
            opened.remember(cell_id, cell)


def rows(path: Path) -> int:
    """As another program sees the file."""
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM profiles").fetchone()
        return int(count)
