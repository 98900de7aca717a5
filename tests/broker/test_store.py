"""What the broker keeps on disk: all of it comes back, and no disk can stop a broker."""

import os
import resource
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest
from loguru import logger

from broker import statefile, store
from broker.cells import Cell, CellId
from broker.statefile import APPLICATION_ID, MIGRATIONS
from broker.store import Store, by_text
from grn_zmq.errors import StateTooNew, UnsafeDirectory
from tests.waiting import until

FIT = CellId("train.py::fit", (("batch_size", 32), ("half", True)), "A100 40 GiB")
CELL = Cell(
    version="abc",
    runs=3,
    trust=2,
    mean_bytes=1.5e9,
    squares=2.5e12,
    max_bytes=2 << 30,
    need_bytes=1 << 30,
    bound_bytes=5,
    stand_in_bytes=6,
    ooms=1,
    failures=4,
    last_s=12.5,
    before_s=13.5,
    solo_s=11.5,
    utilisation=0.75,
    mean_utilisation=0.5,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What was logged as a warning, with its facts."""
    said: list[str] = []
    sink = logger.add(
        lambda text: said.append(str(text)), level="WARNING", format="{message} {extra}"
    )
    yield said
    logger.remove(sink)


def kept(path: Path) -> dict[CellId, Cell]:
    with closing(Store(path)) as found:
        return dict(found.load())


def keep(path: Path, *cells: tuple[CellId, Cell]) -> None:
    with closing(Store(path)) as opened:
        for cell_id, cell in cells:
            opened.remember(cell_id, cell)


def rows(path: Path) -> int:
    """As another program sees the file."""
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM profiles").fetchone()
        return int(count)


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
