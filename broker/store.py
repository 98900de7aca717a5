"""Keeps profiles beyond the broker's life: loaded at its start, written behind its back.

The loop only hands over what changed; a thread gathers that for a moment and commits it at
once, so nobody waits for the disk and a killed broker loses the last moment only.
"""

import json
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from loguru import logger

from grn_zmq.errors import GrnError

from .cells import By, Cell, CellId
from .statefile import StateLock, open_state, open_to_read, prepare_directory, transaction

# How long changes are gathered: well below the second that may be lost.
GATHER_S: Final = 0.3
# When a disk that was full is asked again, if nothing else changes.
RETRY_S: Final = 30.0
MOST_CELLS: Final = 10_000
# A disk that hangs must not keep the broker from ending.
CLOSE_S: Final = 5.0
# Changes that may wait for a disk that does not answer; the broker's memory is worth more.
MOST_WAITING: Final = 100_000
# What a row brings about and not the disk: it will never be written, all others will.
_BAD_ROW: Final = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    UnicodeError,
)

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


class Change(NamedTuple):
    """New figures of a cell; without any, the job type that is the key is forgotten."""

    key: tuple[Any, ...]
    figures: tuple[Any, ...]


class Store:
    """The profiles on disk. Where they cannot be kept, it says so once and does nothing."""

    def __init__(self, path: Path) -> None:
        """Open the file; whatever is wrong with the disk, the broker can go on without it.

        Raises:
            StateTooNew: A newer version of this package wrote the file.
            UnsafeDirectory: Others may enter the directory of the file.
        """
        self._path = path
        self._lock: StateLock | None = None
        self._writable = False
        self._connection = self._open()
        self._changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._has_changes = threading.Event()
        self._closing = threading.Event()
        self._writer = threading.Thread(target=self._write_behind, name="store", daemon=True)
        if self._writable:
            self._writer.start()

    def _open(self) -> sqlite3.Connection | None:
        try:
            prepare_directory(self._path.parent)
            self._lock = StateLock(self._path.with_suffix(".lock"))
            connection, aside = open_state(self._path)
        except BlockingIOError:
            self._warn("another broker of yours keeps its state there (see XDG_STATE_HOME)")
            return None
        except GrnError:
            self._unlock()
            raise
        except (OSError, sqlite3.Error) as error:
            self._warn(error)
            return open_to_read(self._path)
        if aside is not None:
            logger.bind(facts={"file": str(self._path), "now": str(aside)}).warning(
                "the state file was damaged or not ours: moved aside, nothing is known now"
            )
        self._writable = True
        return connection

    def _warn(self, why: object) -> None:
        logger.bind(facts={"file": str(self._path), "why": str(why)}).warning(
            "cannot keep profiles: what is learned will be forgotten when the broker ends"
        )

    def load(self) -> Iterator[tuple[CellId, Cell]]:
        """Give what was kept, the oldest first; rows that make no sense are left out."""
        left_out = 0
        for row in self._rows():
            cell = _cell_of(row)
            if cell is None:
                left_out += 1
            else:
                yield cell
        if left_out:
            logger.bind(facts={"file": str(self._path), "rows": left_out}).warning(
                "left out profiles that make no sense"
            )

    def _rows(self) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(_LOAD).fetchall()
        except sqlite3.Error as error:
            self._warn(error)
            return []

    def remember(self, cell_id: CellId, cell: Cell) -> None:
        """Keep these figures, as they are now, within a second."""
        key = (cell_id.job_type, by_text(cell_id.by), cell_id.device_class, cell_id.devices)
        self._change(Change(key, (*_figures_of(cell), time.time())))

    def forget(self, job_type: str) -> None:
        """Keep no cell of this type any longer."""
        self._change(Change((job_type,), ()))

    def _change(self, change: Change) -> None:
        if self._writable and self._changes.qsize() < MOST_WAITING:
            self._changes.put(change)
            self._has_changes.set()

    def close(self) -> None:
        """Write what is still to be written, and let go of the file."""
        self._closing.set()
        self._has_changes.set()
        if self._writer.ident is not None:
            self._writer.join(CLOSE_S)
        if self._writer.is_alive():
            self._warn(f"the disk has not answered for {CLOSE_S:.0f} s")
            return  # the thread ends with the process, and the lock with it
        if self._connection is not None:
            self._connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _write_behind(self) -> None:
        """The thread: whatever stops it, the broker goes on with what is in memory."""
        try:
            self._write_until_closed()
        except Exception as error:
            self._writable = False
            self._changes = queue.SimpleQueue()
            self._warn(f"{type(error).__name__}: {error}")

    def _write_until_closed(self) -> None:
        """Wait for a change, gather more for a moment, commit them together.

        What could not be written is tried again, with what has come since.
        """
        pending: dict[tuple[Any, ...], Change] = {}
        warned = ending = False
        while not ending:
            self._has_changes.wait(RETRY_S if pending else None)
            self._closing.wait(GATHER_S)
            ending = self._closing.is_set()
            self._has_changes.clear()
            self._gather(pending)
            try:
                self._commit(pending)
            except sqlite3.Error as error:
                if not warned:
                    self._warn(error)
                warned = True
            else:
                pending.clear()

    def _gather(self, pending: dict[tuple[Any, ...], Change]) -> None:
        """Take what was handed over; of each cell only the last figures count."""
        for _ in range(self._changes.qsize()):
            change = self._changes.get()
            if not change.figures:
                for key in [key for key in pending if key[0] == change.key[0]]:
                    del pending[key]
            pending.pop(change.key, None)  # so that the first are those that waited longest
            pending[change.key] = change
        for key in list(pending)[: max(0, len(pending) - MOST_CELLS)]:
            del pending[key]

    def _commit(self, pending: dict[tuple[Any, ...], Change]) -> None:
        if not pending or self._connection is None:
            return
        with transaction(self._connection):
            for change in pending.values():
                self._execute(self._connection, change)
            (cells,) = self._connection.execute(_COUNT).fetchone()
            if cells > MOST_CELLS:
                self._connection.execute(_TRIM, (cells - MOST_CELLS,))

    def _execute(self, connection: sqlite3.Connection, change: Change) -> None:
        """Take over one change; one that cannot be written is dropped, and only that."""
        statement = _KEEP if change.figures else _FORGET
        try:
            connection.execute(statement, (*change.key, *change.figures))
        except _BAD_ROW as error:
            # SQLite undoes the failed statement alone: the transaction goes on.
            facts = {"job_type": str(change.key[0]), "why": str(error)}
            logger.bind(facts=facts).warning("dropped a profile that cannot be kept")


def by_text(by: By) -> str:
    """The same arguments as the same text."""
    return _as_json(dict(by))


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
