"""What the state file keeps beside jobs: blobs they share, who waits for them, deaths."""

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from grn_zmq.processes import process_born
from grn_zmq.records import Blob

from .changes import Batch, Death, KeptSession
from .loading import Times
from .rows import opened, sealed
from .schema import Connection

# Deaths of workers are counted over a day; a second one for clocks that were wrong.
DEATHS_S: Final = 2 * 24 * 3600.0
MOST_DEATHS: Final = 1000


class Surroundings:
    """Blobs, sessions and deaths of one state file."""

    def __init__(self, connection: Connection, boot: int) -> None:
        self._connection = connection
        self._boot = boot
        # When the process of each session was born: a later one may have the same pid.
        self.born: dict[str, int] = {}

    def write(self, batch: Batch, to_wall_s: float) -> None:
        """Write these parts of a batch, inside a transaction.

        What is let go is let go first: what the same turn brought back stays.
        """
        self._many("DELETE FROM blobs WHERE digest = ?", ((one,) for one in batch.lost_blobs))
        self._many(
            "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?)",
            (sealed(one.digest, one.data) for one in batch.blobs),
        )
        self._sessions(batch)
        self._deaths(batch.deaths, to_wall_s)

    def _many(self, sql: str, rows: Iterable[Any]) -> None:
        self._connection.executemany(sql, rows)

    def _sessions(self, batch: Batch) -> None:
        lost = batch.lost_sessions
        self._many("DELETE FROM sessions WHERE name = ?", ((one,) for one in lost))
        for name in lost:
            self.born.pop(name, None)
        uid = os.geteuid()
        for one in batch.sessions:
            self.born[one.name] = process_born(one.pid)
            row = sealed(one.name, one.pid, self.born[one.name], uid)
            self._connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)", row
            )

    def _deaths(self, deaths: list[Death], to_wall_s: float) -> None:
        if not deaths:
            return
        self._many(
            "INSERT INTO deaths VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (
                sealed(
                    one.job_type,
                    float(one.blame),
                    float(one.at),
                    one.at + to_wall_s,
                    self._boot,
                )
                for one in deaths
            ),
        )
        self._connection.execute(
            "DELETE FROM deaths WHERE number <= (SELECT max(number) FROM deaths) - ?",
            (MOST_DEATHS,),
        )

    def blobs(self) -> list[Blob]:
        rows = self._connection.execute("SELECT digest, data, crc FROM blobs").fetchall()
        return [Blob(*opened(row, "blobs")) for row in rows]

    def sessions(self) -> list[KeptSession]:
        query = "SELECT name, pid, born, uid, crc FROM sessions"
        rows = [opened(row, "sessions") for row in self._connection.execute(query).fetchall()]
        self.born = {sys.intern(name): born for name, _, born, _ in rows}
        return [KeptSession(sys.intern(name), pid) for name, pid, *_ in rows]

    def deaths(self, times: Times) -> list[Death]:
        """Give the deaths of the last days, the oldest first."""
        query = "SELECT job_type, blame, at, wall, boot, crc FROM deaths ORDER BY number"
        rows = [opened(row, "deaths") for row in self._connection.execute(query).fetchall()]
        found = [Death(kind, blame, times.here(*when)) for kind, blame, *when in rows]
        return [one for one in found if times.now - one.at < DEATHS_S]
