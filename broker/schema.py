"""The tables of the state file, and how each version of them became the next."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from typing import Any, Final, Protocol

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
    # Jobs are kept under their number and not under their random id: what is written
    # together lies together. No index besides: what lies in the tables has a checksum.
    (
        """
        CREATE TABLE meta (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL,
            crc INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE jobs (
            number INTEGER PRIMARY KEY,
            job_id TEXT NOT NULL,
            session TEXT NOT NULL,
            uid INTEGER NOT NULL,
            queued_at REAL NOT NULL,
            queued_wall REAL NOT NULL,
            boot INTEGER NOT NULL,
            digest BLOB NOT NULL,
            payload_bytes INTEGER NOT NULL,
            payload_crc INTEGER NOT NULL,
            spec BLOB NOT NULL,
            own BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
        "CREATE TABLE payloads (number INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        """
        CREATE TABLE lives (
            number INTEGER PRIMARY KEY,
            attempt INTEGER NOT NULL,
            state TEXT NOT NULL,
            facts BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE outcomes (
            number INTEGER PRIMARY KEY,
            attempt INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            ended_at REAL NOT NULL,
            ended_wall REAL NOT NULL,
            boot INTEGER NOT NULL,
            payload_bytes INTEGER NOT NULL,
            payload_crc INTEGER NOT NULL,
            facts BLOB NOT NULL,
            crc INTEGER NOT NULL,
            expired INTEGER NOT NULL
        )
        """,
        "CREATE TABLE results (number INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        """
        CREATE TABLE blobs (
            digest TEXT PRIMARY KEY,
            data BLOB NOT NULL,
            crc INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE sessions (
            name TEXT PRIMARY KEY,
            pid INTEGER NOT NULL,
            born INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            crc INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE deaths (
            number INTEGER PRIMARY KEY,
            job_type TEXT NOT NULL,
            blame REAL NOT NULL,
            at REAL NOT NULL,
            wall REAL NOT NULL,
            boot INTEGER NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
    ),
    # Jobs that come together are kept together, under the number of the first; then what was
    # said of several of them at once, in its order; then what is over for some of a train.
    (
        """
        CREATE TABLE trains (
            number INTEGER PRIMARY KEY,
            session TEXT NOT NULL,
            uid INTEGER NOT NULL,
            queued_at REAL NOT NULL,
            queued_wall REAL NOT NULL,
            boot INTEGER NOT NULL,
            spec BLOB NOT NULL,
            own BLOB NOT NULL,
            job_ids BLOB NOT NULL,
            sizes BLOB NOT NULL,
            digests BLOB NOT NULL,
            payloads BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE rides (
            number INTEGER PRIMARY KEY,
            state TEXT NOT NULL,
            facts BLOB NOT NULL,
            jobs BLOB NOT NULL,
            attempts BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE arrivals (
            number INTEGER PRIMARY KEY,
            outcome TEXT NOT NULL,
            ended_at REAL NOT NULL,
            ended_wall REAL NOT NULL,
            boot INTEGER NOT NULL,
            keeps_payload INTEGER NOT NULL,
            facts BLOB NOT NULL,
            jobs BLOB NOT NULL,
            attempts BLOB NOT NULL,
            wait_s BLOB NOT NULL,
            run_s BLOB NOT NULL,
            sizes BLOB NOT NULL,
            payloads BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE marks (
            number INTEGER PRIMARY KEY,
            flags BLOB NOT NULL,
            crc INTEGER NOT NULL
        )
        """,
    ),
)
# From here on the file holds jobs, and must not be lost.
HAS_JOBS: Final = 2


class Cursor(Protocol):
    """What a statement gives, whichever library runs it."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """As little of a connection as is needed, so that a test's can stand in."""

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor: ...
    def close(self) -> None: ...


def version_of(connection: Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def definitions(connection: Connection) -> dict[str, str]:
    """Give how each table and index was made."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return dict(rows.fetchall())


@cache
def expected_definitions(version: int) -> dict[str, str]:
    """What `definitions` gives for a file of this version that nothing has damaged."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                connection.execute(statement)
        return definitions(connection)


def migrate(connection: Connection) -> None:
    """Bring the tables to the version known here; only ever inside a transaction."""
    for number in range(version_of(connection), len(MIGRATIONS)):
        for statement in MIGRATIONS[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
