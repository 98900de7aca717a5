"""What the broker keeps on disk: all of it comes back, and no disk can stop a broker."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from broker import statefile, store
from broker.cells import Cell, CellId
from broker.statefile import APPLICATION_ID, MIGRATIONS
from broker.store import Store, by_text
from grn_zmq.errors import StateTooNew, UnsafeDirectory
from tests.broker.stored import CELL, FIT, keep, kept, rows, warnings_heard
from tests.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    with warnings_heard() as said:
        yield said


def test_what_is_remembered_is_there_after_a_restart_to_the_last_figure(path: Path) -> None:
    keep(path, (FIT, CELL))

    assert kept(path) == {FIT: CELL}
    assert all(getattr(CELL, one.name) for one in fields(Cell))  # none was kept by its default


def test_every_figure_of_a_cell_has_a_column(path: Path) -> None:
    Store(path).close()

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

    assert kept(path) == cells


def test_arguments_in_another_order_are_the_same_text_and_types_differ() -> None:
    assert by_text((("b", 1), ("a", "x"))) == by_text((("a", "x"), ("b", 1)))
    assert len({by_text((("a", one),)) for one in (1, 1.0, True, "1")}) == 4


def test_the_last_figures_handed_over_count_as_they_were_then(path: Path) -> None:
    cell = replace(CELL, runs=4)
    with closing(Store(path)) as opened:
        opened.remember(FIT, CELL)
        opened.remember(FIT, cell)
        cell.runs = 99

    assert kept(path)[FIT].runs == 4


def test_what_is_remembered_is_on_disk_soon_without_closing(path: Path) -> None:
    with closing(Store(path)) as opened:
        opened.remember(FIT, CELL)

        until(lambda: rows(path) == 1, 1)


def test_forgetting_takes_all_cells_of_a_type_and_no_other(path: Path) -> None:
    other = FIT._replace(job_type="train.py::fit2")
    keep(path, (FIT, CELL), (FIT._replace(devices=2), CELL), (other, CELL))

    with closing(Store(path)) as opened:
        opened.remember(FIT._replace(devices=3), CELL)
        opened.forget(FIT.job_type)

    assert list(kept(path)) == [other]


def test_what_is_learned_after_forgetting_stays(path: Path) -> None:
    keep(path, (FIT._replace(devices=2), CELL))

    with closing(Store(path)) as opened:
        opened.remember(FIT, CELL)
        opened.forget(FIT.job_type)
        opened.remember(FIT, replace(CELL, runs=1))

    assert kept(path) == {FIT: replace(CELL, runs=1)}


def test_the_oldest_cells_go_when_there_are_too_many(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_CELLS", 10)
    cells = [(FIT._replace(devices=number), CELL) for number in range(1, 15)]
    keep(path, *cells[:7])

    keep(path, *cells[7:], cells[0])

    assert [one.devices for one in kept(path)] == [*range(6, 15), 1]


def test_r80_directory_file_and_journal_are_private(path: Path) -> None:
    with closing(Store(path)) as opened:
        opened.remember(FIT, CELL)
        until(lambda: rows(path) == 1, 1)
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(modes) == {"state.db", "state.db-wal", "state.db-shm", "state.lock"}
    assert set(modes.values()) == {0o600}


def test_a_directory_that_others_may_enter_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.parent.chmod(0o755)

    with pytest.raises(UnsafeDirectory, match="chmod 700"):
        Store(path)


def test_the_file_says_whose_it_is_and_which_format_it_has(path: Path) -> None:
    keep(path, (FIT, CELL))

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_older_format_is_migrated_and_keeps_its_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(path, (FIT, CELL))
    monkeypatch.setattr(
        statefile, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE jobs (number INTEGER)",))
    )

    assert kept(path) == {FIT: CELL}

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    keep(path, (FIT, CELL))
    with monkeypatch.context() as patch:
        broken = ("CREATE TABLE jobs (number INTEGER)", "CREATE TABLE profiles (x)")
        patch.setattr(statefile, "MIGRATIONS", (*MIGRATIONS, broken))
        Store(path).close()

    assert "already exists" in warnings[0]
    assert kept(path) == {FIT: CELL}


def test_a_newer_format_is_refused_with_what_to_do(path: Path) -> None:
    keep(path, (FIT, CELL))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()

    with pytest.raises(StateTooNew, match=r"state\.db.*99.*move the file away") as caught:
        Store(path)

    assert (caught.value.version, caught.value.known) == (99, len(MIGRATIONS))
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    assert kept(path) == {FIT: CELL}  # nor does the refused one keep the lock


def garbage(path: Path) -> None:
    path.write_bytes(b"this was never a database, but it is long enough to be one" * 100)


def torn(path: Path) -> None:
    keep(path, *((FIT._replace(devices=number), CELL) for number in range(1, 500)))
    content = bytearray(path.read_bytes())
    content[4096:12288] = os.urandom(8192)
    path.write_bytes(content)


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("spoil", [garbage, torn, of_another_program, a_directory])
def test_a_damaged_or_foreign_file_is_moved_aside_and_named(
    path: Path, warnings: list[str], spoil: Callable[[Path], None]
) -> None:
    path.parent.mkdir(mode=0o700)
    spoil(path)

    assert kept(path) == {}

    (aside,) = path.parent.glob("state.db.damaged-*[0-9]")
    assert len(warnings) == 1
    assert str(aside) in warnings[0]
    keep(path, (FIT, CELL))
    assert kept(path) == {FIT: CELL}


def test_two_damaged_files_do_not_replace_each_other(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    for _ in range(3):
        garbage(path)
        assert kept(path) == {}

    assert len(list(path.parent.glob("state.db.damaged-*"))) == 3


def test_an_empty_file_is_as_good_as_none(path: Path, warnings: list[str]) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()

    keep(path, (FIT, CELL))

    assert kept(path) == {FIT: CELL}
    assert warnings == []


@pytest.mark.parametrize(
    "change",
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
    path: Path, warnings: list[str], change: str
) -> None:
    other = FIT._replace(job_type="other")
    keep(path, (FIT, CELL), (other, CELL))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE profiles SET {change} WHERE job_type = ?", (FIT.job_type,))

    assert list(kept(path)) == [other]
    assert len(warnings) == 1


def test_a_text_that_is_none_does_not_keep_the_others_from_being_read(path: Path) -> None:
    other = FIT._replace(job_type="other")
    keep(path, (FIT, CELL), (other, CELL))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE profiles SET job_type = CAST(x'ff41' AS TEXT) WHERE job_type = ?",
            (FIT.job_type,),
        )

    found = kept(path)

    assert found[other] == CELL
    assert "".join(one.job_type for one in found).encode()  # and all of it can travel
