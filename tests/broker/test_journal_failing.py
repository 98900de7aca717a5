"""Commits that fail: a full disk is tried once more, anything else ends the broker."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from broker.changes import Batch
from broker.journal import Journal, JournalFailed
from broker.statefile import connect_sqlite
from grn_zmq import failpoints
from tests.broker.stored import BOOT, a_journal, an_end, jobs_in, queued


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "orders"
    directory.mkdir()
    failpoints.arm(directory)
    yield directory
    failpoints.arm(None)


@pytest.mark.parametrize("place", ["journal.begin", "journal.before-commit"])
def test_on_a_full_disk_the_ballast_is_given_up_and_the_turn_kept(
    path: Path, orders: Path, place: str
) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        (orders / place).write_text("errno ENOSPC")
        journal.write(queued(2))

        assert not journal.accepting
        journal.write(Batch(ends=[an_end(1)]))

    assert [one.end is not None for one in jobs_in(path)] == [True, False]


@pytest.mark.parametrize("place", ["journal.begin", "journal.before-commit"])
def test_any_other_failure_ends_the_broker_and_nothing_of_the_turn_is_kept(
    path: Path, orders: Path, place: str
) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        (orders / place).write_text("errno EIO")
        with pytest.raises(JournalFailed, match="Input/output error"):
            journal.write(queued(2))

    assert [one.new.number for one in jobs_in(path)] == [1]


def test_a_failure_behind_the_commit_ends_the_broker_and_the_turn_is_kept(
    path: Path, orders: Path
) -> None:
    with a_journal(path) as journal:
        (orders / "journal.after-commit").write_text("errno EIO")
        with pytest.raises(JournalFailed):
            journal.write(queued(1))

    assert [one.new.number for one in jobs_in(path)] == [1]


class Failing:
    """A connection on which the commit fails as often as wanted."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.executemany = connection.executemany
        self.close = connection.close
        self.failures = 0

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if sql == "COMMIT" and self.failures:
            self.failures -= 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(sql, parameters)


@pytest.mark.parametrize(("failures", "kept"), [(1, 1), (2, 0)])
def test_a_full_disk_is_tried_once_more_and_not_again(
    path: Path, failures: int, kept: int
) -> None:
    connections: list[Failing] = []

    def connect(where: Path) -> Failing:
        connections.append(Failing(connect_sqlite(where)))
        return connections[-1]

    journal = Journal(path, BOOT, connect=connect)
    connections[0].failures = failures
    failing = nullcontext() if kept else pytest.raises(JournalFailed, match="full")
    with closing(journal), failing:
        journal.write(queued(1))

    assert len(jobs_in(path)) == kept
