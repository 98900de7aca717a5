"""The one file that outlives the broker: opened by one broker at a time, checked, migrated.

A new table is one more entry of `MIGRATIONS`; what is in the tables is the business of the
modules that read and write them.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from grn_zmq.errors import StateTooNew
from grn_zmq.paths import check_private

# "GRNZ": tells a file of ours from another program's that happens to have the same name.
APPLICATION_ID: Final = 0x47524E5A

# The n-th entry leads from `user_version` n to n + 1. Entries are only ever added.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE profiles (
            job_type TEXT NOT NULL,
            "by" TEXT NOT NULL,
            device_class TEXT NOT NULL,
            devices INTEGER NOT NULL,
            version TEXT NOT NULL,
            runs INTEGER NOT NULL,
            trust INTEGER NOT NULL,
            mean_bytes REAL NOT NULL,
            squares REAL NOT NULL,
            max_bytes INTEGER NOT NULL,
            need_bytes INTEGER NOT NULL,
            bound_bytes INTEGER NOT NULL,
            stand_in_bytes INTEGER NOT NULL,
            ooms INTEGER NOT NULL,
            failures INTEGER NOT NULL,
            last_s REAL NOT NULL,
            before_s REAL NOT NULL,
            solo_s REAL NOT NULL,
            utilisation REAL NOT NULL,
            mean_utilisation REAL NOT NULL,
            updated_at REAL NOT NULL,
            PRIMARY KEY (job_type, "by", device_class, devices)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX profiles_by_age ON profiles (updated_at)",
    ),
)

# Somebody who looks into the file with another program holds us up for so long at most.
BUSY_S: Final = 2.0
# What is told apart from a disk that is full or read-only: such a file never gets better.
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Damaged(Exception):
    """The file cannot be read as ours; the text says why."""


class StateLock:
    """Held while the file is open: brokers of other runtime directories share the same one."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            BlockingIOError: Another broker has it.
        """
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise

    def close(self) -> None:
        os.close(self._fd)


def prepare_directory(directory: Path) -> None:
    """Create the directory of the file, for this user alone.

    Raises:
        OSError: It cannot be made.
        UnsafeDirectory: Others may enter it.
    """
    for missing in reversed([directory, *directory.parents]):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)
    check_private(directory)


def open_state(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """Open the file, or make one; give also where a damaged one was moved.

    The connection may be used by one thread at a time, and commits only when told.

    Raises:
        StateTooNew: A newer version of this package wrote it.
        sqlite3.Error, OSError: It cannot be written: a full or read-only disk.
    """
    try:
        return _open(path), None
    except Damaged:
        aside = _move_aside(path)
        return _open(path), aside


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Open a file that cannot be written, or give None; a journal next to it is not read."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        connection.text_factory = _text
        _check(connection, path)
        return connection
    except (sqlite3.Error, Damaged):
        return None


def _open(path: Path) -> sqlite3.Connection:
    if path.is_dir():
        raise Damaged("it is a directory")
    # Made by us first, so that it is private from its first byte; its journal takes its mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.chmod(path, 0o600)
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.text_factory = _text
        _check(connection, path)
        # NORMAL: a commit survives the death of every process, and costs no flush of the disk.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection)
        return connection
    except sqlite3.DatabaseError as error:
        connection.close()
        if is_damage(error):
            raise Damaged(str(error)) from None
        raise
    except BaseException:
        connection.close()
        raise


def _text(data: bytes) -> str:
    """A byte that a disk has changed spoils one text, not the reading of all."""
    return data.decode(errors="replace")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken, rather than the disk below it."""
    # The low byte is the kind of an extended code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what is newer, foreign or broken."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise Damaged("another program wrote it")
    if version > len(MIGRATIONS):
        raise StateTooNew(path, version, len(MIGRATIONS))
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise Damaged(verdict)


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version, len(MIGRATIONS)):
        with transaction(connection):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number + 1}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _move_aside(path: Path) -> Path:
    """Give a damaged file another name, its journal with it: somebody may want to repair it."""
    stamp = time.strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("-wal", "-shm", ""):
        part = Path(f"{path}{suffix}")
        if part.exists():
            os.rename(part, f"{aside}{suffix}")
    return aside
