"""Rows of trains that are not what was written: noticed, and never believed."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker import schema
from broker.changes import Batch
from broker.journal import JournalFailed
from broker.rows import BadRow, sealed
from broker.trainrows import (
    Parts,
    arrival_of,
    arrival_row,
    ride_of,
    ride_row,
    train_of,
    train_row,
)
from grn_zmq import failpoints
from grn_zmq.errors import StateDamaged
from tests.broker.stored import (
    a_bit_of_all,
    a_journal,
    an_end,
    change,
    ids,
    job_id,
    jobs_in,
    write,
)
from tests.broker.trains import a_bit_of_trains, a_ride, a_train, all_of, an_arrival, known_to

TABLES = ("trains", "rides", "arrivals", "marks")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


def spoilt(value: Any) -> Any:
    """The same with one bit of it changed."""
    match value:
        case int():
            return value ^ 1
        case float():
            return value + 2**-10
        case str():
            return chr(ord(value[0]) ^ 1) + value[1:]
        case _:
            middle = len(value) // 2
            return value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]


def test_whatever_is_changed_in_a_row_is_noticed(path: Path, tmp_path: Path) -> None:
    write(path, *a_bit_of_all(), *a_bit_of_trains())
    shutil.copytree(path.parent, tmp_path / "whole")
    spoilt_ones = 0
    for table in TABLES:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(f"SELECT * FROM {table}")
            names = [one[0] for one in rows.description]
            changes = [
                (name, spoilt(value), row[0])
                for row in rows.fetchall()
                for name, value in zip(names, row, strict=True)
                if value != b""
            ]
        for name, value, number in changes:
            shutil.rmtree(path.parent)
            shutil.copytree(tmp_path / "whole", path.parent)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                sql = f"UPDATE OR REPLACE {table} SET {name} = ? WHERE number = ?"
                connection.execute(sql, (value, number))

            with pytest.raises(StateDamaged):
                jobs_in(path)
            spoilt_ones += 1
    assert spoilt_ones > 80


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("which", ["min", "max"])
def test_a_row_that_is_missing_is_missed(path: Path, table: str, which: str) -> None:
    write(path, *a_bit_of_trains())
    change(path, f"DELETE FROM {table} WHERE number = (SELECT {which}(number) FROM {table})")

    with pytest.raises(StateDamaged):
        jobs_in(path)


def test_bytes_that_are_not_what_was_written_are_not_handed_out(path: Path) -> None:
    write(path, *a_bit_of_trains())

    with a_journal(path) as journal:
        list(journal.load().jobs)
        for table in ("trains", "arrivals"):
            change(path, f"UPDATE {table} SET payloads = zeroblob(length(payloads))")
        with pytest.raises(StateDamaged, match="checksum"):
            journal.payload(job_id(27))
        with pytest.raises(StateDamaged, match="checksum"):
            journal.result(job_id(24))
        change(path, "DELETE FROM trains", "DELETE FROM arrivals")
        with pytest.raises(StateDamaged, match="missing"):
            journal.payload(job_id(27))
        with pytest.raises(StateDamaged, match="missing"):
            journal.result(job_id(24))


@pytest.mark.parametrize("at", [8, 9, 11])
def test_columns_of_a_train_that_do_not_fit_each_other_are_noticed(at: int) -> None:
    values = list(train_row(a_train(1, 3), slice(0, 3), 0, 0.0, 1)[:-1])
    values[at] = values[at][:-1]

    with pytest.raises(BadRow):
        train_of(sealed(*values))


@pytest.mark.parametrize("at", [3, 4])
def test_columns_of_a_ride_that_do_not_fit_each_other_are_noticed(at: int) -> None:
    values = list(ride_row(1, a_ride(1, 2), [1, 2])[:-1])
    values[at] = values[at][:-1]

    with pytest.raises(BadRow):
        ride_of(sealed(*values))


@pytest.mark.parametrize("at", [7, 8, 9, 10, 11, 12])
def test_columns_of_an_arrival_that_do_not_fit_each_other_are_noticed(at: int) -> None:
    values = list(arrival_row(1, an_arrival(1, 2), [1, 2], 0.0, 1)[:-1])
    values[at] = values[at][:-1]

    with pytest.raises(BadRow):
        arrival_of(sealed(*values))


def test_bytes_for_no_payloads_are_noticed() -> None:
    with pytest.raises(BadRow):
        Parts((), b"x")


def before_trains(path: Path) -> None:
    """Make of a file one as it was before there were trains."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in TABLES:
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 2")
        query = "SELECT value FROM meta WHERE key = 'tally'"
        (tally,) = connection.execute(query).fetchone()
        row = sealed("tally", tally.rpartition(" ")[0])
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)
        assert schema.definitions(connection) == schema.expected_definitions(2)


def test_f16_a_file_from_before_there_were_trains_is_migrated(path: Path) -> None:
    write(path, *a_bit_of_all())
    before = jobs_in(path)
    before_trains(path)

    assert jobs_in(path) == before
    write(path, *a_bit_of_trains())
    assert [one.new.number for one in jobs_in(path)] == [*range(1, 13), 21, *range(23, 41)]


def test_on_a_full_disk_the_turn_is_kept_and_what_is_known_is_right(
    path: Path, tmp_path: Path
) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    failpoints.arm(orders)
    try:
        with a_journal(path) as journal:
            for batch in a_bit_of_trains():
                (orders / "journal.before-commit").write_text("errno ENOSPC")
                journal._disk.look()  # so that there is ballast again
                journal.write(batch)
            known, found = known_to(journal), all_of(journal)
            assert known_to(journal) == known
    finally:
        failpoints.arm(None)

    with a_journal(path) as journal:
        assert all_of(journal) == found
        assert known_to(journal) == known


def test_any_other_failure_ends_the_broker_and_nothing_of_the_turn_is_kept(
    path: Path, tmp_path: Path
) -> None:
    write(path, *a_bit_of_trains())
    before = jobs_in(path)
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "journal.before-commit").write_text("errno EIO")
        with a_journal(path) as journal, pytest.raises(JournalFailed):
            journal.write(Batch(ends=[an_end(30)], forgotten=ids(21, 23)))
    finally:
        failpoints.arm(None)

    assert jobs_in(path) == before
