"""Profiles in the state file: written with what else changed, read with suspicion."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from loguru import logger

from .cells import By, Cell, CellId
from .schema import Connection

MOST_CELLS: Final = 10_000
# How many new figures pass between two looks at whether there are too many.
LOOK_EVERY: Final = 500

_FIGURES: Final = tuple(one.name for one in fields(Cell))
_KEYS: Final = CellId._fields
_figures_of = attrgetter(*_FIGURES)
_as_json = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

# Quoted, because `by` is a word of SQL.
_KEY_COLUMNS: Final = ", ".join(f'"{name}"' for name in _KEYS)
_COLUMNS: Final = f"{_KEY_COLUMNS}, {', '.join(_FIGURES)}"
_PLACES: Final = ", ".join("?" * (len(_KEYS) + len(_FIGURES) + 1))
_KEEP: Final = f"INSERT OR REPLACE INTO profiles ({_COLUMNS}, updated_at) VALUES ({_PLACES})"
_FORGET: Final = "DELETE FROM profiles WHERE job_type = ?"
_LOAD: Final = f"SELECT {_COLUMNS} FROM profiles ORDER BY updated_at"
_COUNT: Final = "SELECT count(*) FROM profiles"
_TRIM: Final = f"""
    DELETE FROM profiles WHERE ({_KEY_COLUMNS}) IN (
        SELECT {_KEY_COLUMNS} FROM profiles ORDER BY updated_at LIMIT ?)
"""


class CellTable:
    """The profiles of one state file."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._until_look = 0

    def write(self, cells: Mapping[CellId, Cell], now: float) -> None:
        """Keep these figures; of what cannot be kept only that is dropped.

        Args:
            now: Seconds since 1970: the oldest go when there are too many.
        """
        for cell_id, cell in cells.items():
            row = (cell_id.job_type, by_text(cell_id.by), *cell_id[2:], *_figures_of(cell), now)
            why = _unfit(row)
            if why:
                facts = {"job_type": ascii(cell_id.job_type), "why": why}
                logger.bind(facts=facts).warning("dropped a profile that cannot be kept")
            else:
                self._connection.execute(_KEEP, row)
        self._trim(len(cells))

    def forget(self, job_type: str) -> None:
        """Keep no cell of this type any longer."""
        self._connection.execute(_FORGET, (job_type,))

    def _trim(self, written: int) -> None:
        self._until_look -= written
        if self._until_look > 0 or not written:
            return
        self._until_look = min(LOOK_EVERY, MOST_CELLS)
        (cells,) = self._connection.execute(_COUNT).fetchone()
        if cells > MOST_CELLS:
            self._connection.execute(_TRIM, (cells - MOST_CELLS,))

    def load(self) -> Iterator[tuple[CellId, Cell]]:
        """Give what was kept, the oldest first; rows that make no sense are left out."""
        left_out = 0
        for row in self._connection.execute(_LOAD).fetchall():
            cell = _cell_of(row)
            if cell is None:
                left_out += 1
            else:
                yield cell
        if left_out:
            logger.bind(facts={"file": str(self._path), "rows": left_out}).warning(
                "left out profiles that make no sense"
            )


def by_text(by: By) -> str:
    """The same arguments as the same text."""
    return _as_json(dict(by))


def _unfit(row: tuple[Any, ...]) -> str:
    """Say what of a row no table can hold; a failed statement would undo the whole turn."""
    for value in row:
        match value:
            case str():
                if not value.isascii() and value.encode(errors="ignore").decode() != value:
                    return f"{value!a} is no text"
            case int() if not -(2**63) <= value < 2**63:
                return f"{value!r:.40} is no number of 64 bits"
            case float() if math.isnan(value):
                return "a figure is no number"
            case int() | float():
                pass
            case _:
                return f"{value!r:.40} is neither text nor number"
    return ""


def _cell_of(row: tuple[Any, ...]) -> tuple[CellId, Cell] | None:
    """Read a row, or give None: a disk can change any byte."""
    job_type, by, device_class, devices = row[: len(_KEYS)]
    figures = row[len(_KEYS) :]
    try:
        pairs = tuple(sorted(json.loads(by).items()))
        cell = Cell(*figures)
    except (AttributeError, TypeError, ValueError):
        return None
    numbers = [
        figure for name, figure in zip(_FIGURES, figures, strict=True) if name != "version"
    ]
    sane = (
        all(isinstance(text, str) for text in (job_type, device_class, cell.version))
        and isinstance(devices, int)
        and all(isinstance(value, int | float | str) for _, value in pairs)
        and all(isinstance(one, int | float) and 0 <= one < math.inf for one in numbers)
    )
    return (CellId(job_type, pairs, device_class, devices), cell) if sane else None
