"""Looks at a state file before anything is written to it: whose it is, whether it is sound."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from grn_zmq.errors import StateDamaged, StateError, StateTooNew, StateUnwritable

from .rows import BadRow, opened, sealed
from .schema import (
    APPLICATION_ID,
    HAS_JOBS,
    MIGRATIONS,
    Connection,
    definitions,
    expected_definitions,
    version_of,
)

# Somebody who looks into the file with another program holds us up for so long at most.
BUSY_S: Final = 2.0
_PAGE_BYTES: Final = 4096
# A byte that a disk has changed spoils one text, which its checksum tells.
text_of: Final = partial(str, errors="replace")
# What the disk brings about and not what is on it.
_OF_THE_DISK: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


@dataclass(slots=True)
class Meta:
    """What the file says of itself. `tally` counts, so that nothing can be missing unnoticed.

    Args:
        boot: Counts the boots of the machine; times are comparable within one.
    """

    instance: str
    epoch: int
    boot_id: str
    boot: int
    last_number: int = 0
    jobs: int = 0
    commits: int = 0
    paused: bool = False
    queues: str = ""
    # Rows that say what became of members of trains.
    moves: int = 0

    @property
    def tally(self) -> str:
        return f"{self.last_number} {self.jobs} {self.commits} {self.moves}"


def examine(path: Path, marked: str, noted: int) -> Meta | None:
    """Look at the file without changing it; None if there is none yet.

    Only for reading: a connection that may write would, when closed, put the log into the
    file and remove it, and with it what a damaged log may still hold.
    """
    if path.is_dir():
        raise StateDamaged(path, "it is a directory")
    if not path.exists() or not path.stat().st_size:
        return None
    if not marked and _is_unborn(path):
        return None
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S)) as connection:
        connection.text_factory = text_of
        version = _check_version(connection, path)
        if not version:
            return None
        _check_form(connection, path, version)
        if version < HAS_JOBS:
            if marked:
                raise StateDamaged(path, "it has no jobs, and its marker says it should")
            return Meta(uuid4().hex, 0, "", 0)
        meta = read_meta(connection)
    if marked and marked != meta.instance:
        raise StateDamaged(path, f"it belongs to {meta.instance}, its marker to {marked}")
    if meta.commits < noted:
        raise StateDamaged(
            path,
            f"the last {noted - meta.commits} changes are missing: its log (-wal) is broken or "
            f"gone; if it is a backup and they may be forgotten, remove {path.stem}.lock",
        )
    return meta


def _is_unborn(path: Path) -> bool:
    """Whether the very first start was cut short: SQLite was to undo it and cannot, read-only.

    Before the log there is a journal of its own, and a file of one page has no tables yet.
    """
    journal = path.with_name(f"{path.name}-journal")
    return path.stat().st_size <= _PAGE_BYTES and journal.exists()


def _check_version(connection: Connection, path: Path) -> int:
    """Refuse what is newer or another program's; 0 is a file in which nothing is yet."""
    version = version_of(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    names = definitions(connection)
    if application != APPLICATION_ID and (application or version or names):
        raise StateDamaged(path, "another program wrote it")
    if version > len(MIGRATIONS):
        raise StateTooNew(path, version, len(MIGRATIONS))
    if not version and names:
        raise StateDamaged(path, "its version is gone")
    return version


def _check_form(connection: Connection, path: Path, version: int) -> None:
    """Refuse what is broken, or has other tables than it should."""
    found = definitions(connection)
    for name, definition in expected_definitions(version).items():
        if found.get(name) != definition:
            raise StateDamaged(path, f"its table {name} is not as it was made")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        # Its first line only names the database.
        raise StateDamaged(path, verdict.splitlines()[-1])


def read_meta(connection: Connection) -> Meta:
    """Read what the file says of itself.

    Raises:
        BadRow: It is not what was written.
    """
    rows = connection.execute("SELECT key, value, crc FROM meta").fetchall()
    found: dict[str, Any] = dict(opened(row, "meta") for row in rows)
    try:
        # Before there were trains, it ended after three.
        last_number, jobs, commits, moves = map(int, f"{found['tally']} 0".split()[:4])
        return Meta(
            found["instance"],
            int(found["epoch"]),
            found["boot_id"],
            int(found["boot"]),
            last_number,
            jobs,
            commits,
            bool(int(found.get("paused", 0))),
            found.get("queues", ""),
            moves,
        )
    except (KeyError, ValueError) as error:
        raise BadRow(f"meta says nothing of {error}") from None


def write_meta(connection: Connection, **values: object) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
        [sealed(key, str(value)) for key, value in values.items()],
    )


def explained(path: Path, error: sqlite3.Error | UnicodeError) -> StateError:
    """Tell a file that is broken from a disk that does not give or take it.

    Where SQLite complains of a broken name, its complaint itself may be no text.
    """
    # The low byte is the kind of an extended code.
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK:
        return StateUnwritable(path, str(error))
    return StateDamaged(path, str(error))
