"""Disks that are full, shared, slow or given what they cannot keep: the broker goes on."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from broker import store
from broker.cells import Cell, CellId
from broker.store import Store
from tests.broker.stored import CELL, FIT, keep, kept, rows, warnings_heard
from tests.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    with warnings_heard() as said:
        yield said


def test_a_place_that_cannot_be_made_is_warned_of_once(warnings: list[str]) -> None:
    nowhere = Path("/proc/grn/state.db")

    keep(nowhere, (FIT, CELL), (FIT, CELL))

    assert len(warnings) == 1
    assert str(nowhere) in warnings[0]
    assert "will be forgotten" in warnings[0]


@contextmanager
def a_full_disk() -> Iterator[None]:
    """No file of this process can grow any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_known_is_still_read_when_the_disk_is_full(
    path: Path, warnings: list[str]
) -> None:
    keep(path, (FIT, CELL))

    with a_full_disk():
        found = kept(path)

    assert found == {FIT: CELL}
    assert len(warnings) == 1


def test_a_disk_that_fills_up_is_warned_of_once_and_used_again_when_it_has_room(
    path: Path, warnings: list[str]
) -> None:
    with closing(Store(path)) as opened:
        with a_full_disk():
            for _ in range(3):  # what was taken the third time has failed twice before
                for devices in range(1, 100):
                    opened.remember(FIT._replace(devices=devices), CELL)
                until(opened._changes.empty, 2)
        opened.remember(FIT._replace(devices=100), CELL)
        until(lambda: rows(path) == 100, 2)

    assert len(warnings) == 1
    assert len(kept(path)) == 100


@pytest.mark.parametrize(
    "bad",
    [
        (FIT._replace(devices=2), replace(CELL, max_bytes=1 << 70)),  # no INTEGER of SQLite
        (FIT._replace(devices=2), replace(CELL, mean_bytes=float("nan"))),  # which is NULL
        (FIT._replace(job_type="\ud800"), CELL),  # no text
        (FIT._replace(devices=2), replace(CELL, version=["no", "text"])),  # type: ignore[arg-type]
    ],
)
def test_a_row_that_cannot_be_written_is_dropped_and_all_others_are_kept(
    path: Path, warnings: list[str], bad: tuple[CellId, Cell]
) -> None:
    with closing(Store(path)) as opened:
        opened.remember(FIT._replace(devices=5), CELL)
        opened.remember(*bad)
        opened.remember(FIT._replace(devices=6), CELL)
        until(lambda: rows(path) == 2, 2)
        opened.remember(FIT._replace(devices=7), CELL)
        until(lambda: rows(path) == 3, 2)

    assert {one.devices for one in kept(path)} == {5, 6, 7}
    assert len(warnings) == 1
    assert "dropped a profile" in warnings[0]


def test_what_nobody_thought_of_ends_the_writing_with_a_warning_and_nothing_piles_up(
    path: Path, warnings: list[str]
) -> None:
    with closing(Store(path)) as opened:
        opened.remember(FIT._replace(devices=[]), CELL)  # type: ignore[arg-type]
        until(lambda: bool(warnings), 2)
        opened.remember(FIT, CELL)

        assert opened._changes.empty()

    assert len(warnings) == 1
    assert "unhashable" in warnings[0]
    assert kept(path) == {}  # and the lock is free


def test_changes_do_not_pile_up_while_the_disk_does_not_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_WAITING", 50)
    monkeypatch.setattr(store, "MOST_CELLS", 20)
    with closing(Store(path)) as opened, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        opened.remember(FIT, CELL)
        until(opened._changes.empty, 2)  # the thread waits for the lock now, or soon
        for devices in range(2, 200):
            opened.remember(FIT._replace(devices=devices), CELL)

        assert opened._changes.qsize() <= 50
        other.rollback()

    assert len(kept(path)) == 20


def test_a_second_broker_leaves_the_file_alone(path: Path, warnings: list[str]) -> None:
    with closing(Store(path)) as first:
        first.remember(FIT, CELL)
        keep(path, (FIT._replace(devices=2), CELL))

    assert list(kept(path)) == [FIT]
    assert "another broker" in warnings[0]


def test_who_looks_into_the_file_does_not_disturb_the_broker(
    path: Path, warnings: list[str]
) -> None:
    with closing(Store(path)) as opened, closing(sqlite3.connect(path)) as looking:
        looking.execute("BEGIN")
        looking.execute("SELECT * FROM profiles").fetchall()
        opened.remember(FIT, CELL)
        until(lambda: rows(path) == 1, 2)

    assert warnings == []
