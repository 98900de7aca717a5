"""A process of its own that keeps jobs, to be killed: `python -m tests.faults.journalling`.

It says the number of each job on its standard output once the journal has it.
"""

import os
import resource
import sys
from itertools import count
from pathlib import Path
from typing import Any

from broker.changes import Batch
from broker.journal import Journal, JournalFailed
from broker.statefile import connect_sqlite
from tests.broker.stored import BOOT, a_job, a_life, an_end

LAST_LIVES = 20


def with_many_checkpoints(path: Path) -> Any:
    connection = connect_sqlite(path)
    connection.execute("PRAGMA wal_autocheckpoint = 4")
    return connection


class Dying:
    """A connection whose process ends, without a word, before its n-th statement."""

    def __init__(self, connection: Any, statements: int) -> None:
        self._connection = connection
        self._left = statements
        self.close = connection.close

    def execute(self, *arguments: Any) -> Any:
        self._count()
        return self._connection.execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        self._count()
        return self._connection.executemany(*arguments)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            os._exit(9)


def keep_jobs(journal: Journal) -> None:
    """Let jobs come, and the oldest end, for ever."""
    last = journal.load()
    live = [one.new.number for one in last.jobs if one.life]
    for number in count(last.last_number + 1):
        batch = Batch(
            jobs=[a_job(number, payload=bytes(1 + number * 37 % 5000))],
            lives=[a_life(number)],
            durable=number % 3 == 0,
        )
        live.append(number)
        if len(live) > LAST_LIVES:
            batch.ends.append(an_end(live.pop(0)))
        journal.write(batch)
        print(number, flush=True)


def main(what: str, path: Path, how: int = 0) -> None:
    match what:
        case "checkpointing":
            keep_jobs(Journal(path, BOOT, connect=with_many_checkpoints))
        case "dying":
            Journal(path, BOOT, connect=lambda where: Dying(connect_sqlite(where), how))
        case "limited":
            journal = Journal(path, BOOT)
            resource.setrlimit(resource.RLIMIT_FSIZE, (how, how))
            try:
                keep_jobs(journal)
            except JournalFailed as error:
                sys.exit(f"70: {error}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
