"""Profiles in the journal: all of them come back, and a broken one costs no job."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from broker import cellrows
from broker.cellrows import by_text
from broker.cells import Cell, CellId
from broker.changes import Batch
from tests.broker.stored import (
    CELL,
    FIT,
    a_journal,
    cells_in,
    change,
    jobs_in,
    keep,
    queued,
    warnings_heard,
    write,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    with warnings_heard() as said:
        yield said


def test_what_is_remembered_is_there_after_a_restart_to_the_last_figure(path: Path) -> None:
    keep(path, (FIT, CELL))

    assert cells_in(path) == {FIT: CELL}
    assert all(getattr(CELL, one.name) for one in fields(Cell))  # none was kept by its default


def test_every_figure_of_a_cell_has_a_column(path: Path) -> None:
    write(path)

    with closing(sqlite3.connect(path)) as connection:
        names = [name for (_, name, *_) in connection.execute("PRAGMA table_info(profiles)")]
    figures = [one.name for one in fields(Cell)]
    assert names == [*CellId._fields, *figures, "updated_at"], "add a migration"


def test_every_part_of_the_id_tells_cells_apart(path: Path) -> None:
    others = [
        FIT._replace(job_type="other"),
        FIT._replace(by=()),
        FIT._replace(by=(("batch_size", 64), ("half", True))),
        FIT._replace(device_class="T4"),
        FIT._replace(devices=2),
    ]
    cells = {one: replace(CELL, runs=number) for number, one in enumerate([FIT, *others])}

    keep(path, *cells.items())

    assert cells_in(path) == cells


def test_arguments_in_another_order_are_the_same_text_and_types_differ() -> None:
    assert by_text((("b", 1), ("a", "x"))) == by_text((("a", "x"), ("b", 1)))
    assert len({by_text((("a", one),)) for one in (1, 1.0, True, "1")}) == 4


def test_the_last_figures_count(path: Path) -> None:
    keep(path, (FIT, CELL), (FIT, replace(CELL, runs=4)))

    assert cells_in(path) == {FIT: replace(CELL, runs=4)}


def test_forgetting_takes_all_cells_of_a_type_and_no_other(path: Path) -> None:
    other = FIT._replace(job_type="train.py::fit2")
    keep(path, (FIT, CELL), (FIT._replace(devices=2), CELL), (other, CELL))

    write(path, Batch(forgotten_types=[FIT.job_type]))

    assert list(cells_in(path)) == [other]


def test_what_is_learned_after_forgetting_stays(path: Path) -> None:
    keep(path, (FIT._replace(devices=2), CELL))

    write(path, Batch(forgotten_types=[FIT.job_type], cells={FIT: CELL}))

    assert cells_in(path) == {FIT: CELL}


def test_the_oldest_cells_go_when_there_are_too_many(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cellrows, "MOST_CELLS", 10)
    cells = [FIT._replace(devices=number) for number in range(1, 15)]
    with a_journal(path) as journal:
        for now, cell_id in enumerate([*cells, cells[0]]):
            journal._wall = lambda now=now: float(now)  # type: ignore[misc]
            journal.write(Batch(cells={cell_id: CELL}))
        for now in range(100, 110):  # it is looked at only now and then
            journal._wall = lambda now=now: float(now)  # type: ignore[misc]
            journal.write(Batch(cells={cells[0]: CELL}))

    assert [one.devices for one in cells_in(path)] == [*range(6, 15), 1]


@pytest.mark.parametrize(
    "spoil",
    [
        "\"by\" = 'no json'",
        "\"by\" = '[1]'",
        """\"by\" = '{"a": [1]}'""",
        "runs = -1",
        "runs = 'x'",
        "mean_bytes = 9e999",
        "devices = 'two'",
        "job_type = x'ff'",
    ],
)
def test_a_row_that_makes_no_sense_is_left_out_and_the_others_stay(
    path: Path, warnings: list[str], spoil: str
) -> None:
    other = FIT._replace(job_type="other")
    keep(path, (FIT, CELL), (other, CELL))
    change(path, f"UPDATE profiles SET {spoil} WHERE job_type = '{FIT.job_type}'")

    assert list(cells_in(path)) == [other]
    assert len(warnings) == 1


def test_a_text_that_is_none_does_not_keep_the_others_from_being_read(path: Path) -> None:
    other = FIT._replace(job_type="other")
    keep(path, (FIT, CELL), (other, CELL))
    no_text = "UPDATE profiles SET job_type = CAST(x'ff41' AS TEXT)"
    change(path, f"{no_text} WHERE job_type = '{FIT.job_type}'")

    found = cells_in(path)

    assert found[other] == CELL
    assert "".join(one.job_type for one in found).encode()  # and all of it can travel


@pytest.mark.parametrize(
    "bad",
    [
        (FIT._replace(devices=2), replace(CELL, max_bytes=1 << 70)),  # no INTEGER of SQLite
        (FIT._replace(devices=2), replace(CELL, mean_bytes=float("nan"))),  # which is NULL
        (FIT._replace(job_type="\ud800"), CELL),  # no text
        (FIT._replace(devices=2), replace(CELL, version=["no", "text"])),  # type: ignore[arg-type]
    ],
)
def test_a_cell_that_cannot_be_written_is_dropped_and_all_else_of_the_turn_is_kept(
    path: Path, warnings: list[str], bad: tuple[CellId, Cell]
) -> None:
    cells = dict([(FIT._replace(devices=5), CELL), bad, (FIT._replace(devices=6), CELL)])

    write(path, replace(queued(1), cells=cells))

    assert {one.devices for one in cells_in(path)} == {5, 6}
    assert len(jobs_in(path)) == 1
    assert len(warnings) == 1
    assert "dropped a profile" in warnings[0]


def test_figures_beyond_64_bits_are_kept_where_they_are_no_whole_numbers(path: Path) -> None:
    keep(path, (FIT, replace(CELL, squares=1e30)))

    assert cells_in(path)[FIT].squares == 1e30
