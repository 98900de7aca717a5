"""Opening the state file: one broker, its own file, a sound one, or a clear refusal."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from broker import examining, schema, statefile
from broker.changes import Batch
from broker.journal import Journal
from broker.schema import APPLICATION_ID, MIGRATIONS
from grn_zmq.errors import (
    StateDamaged,
    StateInUse,
    StateMissing,
    StateTooNew,
    StateUnwritable,
    UnsafeDirectory,
)
from tests.broker.stored import (
    BOOT,
    CELL,
    FIT,
    a_bit_of_all,
    a_journal,
    cells_in,
    change,
    contents,
    everything,
    jobs_in,
    queued,
    write,
)

LATER_BOOT = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


def the_first_format(path: Path) -> None:
    """A file as it was when only profiles were kept."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    with closing(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        figures = [getattr(CELL, name) for name in CELL.__dataclass_fields__]
        row = (FIT.job_type, '{"batch_size":32,"half":true}', *FIT[2:], *figures, 5.0)
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO profiles VALUES ({marks})", row)


def test_r80_directory_and_files_are_private(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(modes) == {
        "ballast",
        "instance",
        "state.db",
        "state.db-shm",
        "state.db-wal",
        "state.lock",
    }
    assert set(modes.values()) == {0o600}


def test_a_closed_journal_leaves_the_file_its_marker_and_its_lock(path: Path) -> None:
    write(path, queued(1))

    assert set(contents(path.parent)) == {"state.db", "instance", "state.lock"}
    assert not (path.parent / "ballast").exists()


def test_a_directory_that_others_may_enter_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.parent.chmod(0o755)

    with pytest.raises(UnsafeDirectory, match="chmod 700"):
        Journal(path, BOOT)


def test_f12_a_second_broker_is_refused_and_the_first_goes_on(path: Path) -> None:
    with a_journal(path) as first:
        with pytest.raises(StateInUse, match="another broker"):
            Journal(path, BOOT)
        first.write(queued(1))

    assert len(jobs_in(path)) == 1


def test_who_looks_into_the_file_does_not_disturb_the_broker(path: Path) -> None:
    with a_journal(path) as journal, closing(sqlite3.connect(path)) as looking:
        looking.execute("BEGIN")
        looking.execute("SELECT * FROM jobs").fetchall()
        journal.write(queued(1))

    assert len(jobs_in(path)) == 1


def test_the_file_says_whose_it_is_and_which_format_it_has(path: Path) -> None:
    write(path)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("emptied", [False, True])
def test_f15_a_file_that_is_gone_is_missed_and_not_replaced(path: Path, emptied: bool) -> None:
    write(path, queued(1))
    path.unlink()
    if emptied:
        path.touch()

    with pytest.raises(StateMissing, match=r"state\.db is gone.*remove .*instance"):
        Journal(path, BOOT)

    assert path.exists() == emptied


def test_f15_without_its_marker_too_it_is_a_first_start(path: Path) -> None:
    write(path, queued(1))
    path.unlink()
    (path.parent / "instance").unlink()
    (path.parent / "state.lock").unlink()

    assert jobs_in(path) == []


def test_a_marker_that_is_gone_is_made_again(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        instance = journal.instance
    (path.parent / "instance").unlink()

    assert len(jobs_in(path)) == 1
    assert (path.parent / "instance").read_text() == f"{instance}\n"


def test_the_file_of_another_instance_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "state.db"
    write(path, queued(1))
    write(other, queued(1))
    shutil.copy(other, path)

    with pytest.raises(StateDamaged, match="belongs to"):
        Journal(path, BOOT)


def test_a_marker_that_is_none_is_refused(path: Path) -> None:
    write(path, queued(1))
    (path.parent / "instance").write_text("what is this?\n")

    with pytest.raises(StateDamaged, match="marker"):
        Journal(path, BOOT)


def test_f16_the_first_format_is_migrated_and_keeps_its_profiles(path: Path) -> None:
    the_first_format(path)

    assert cells_in(path) == {FIT: CELL}
    write(path, queued(1))
    assert len(jobs_in(path)) == 1
    assert (path.parent / "instance").exists()


def test_f16_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_first_format(path)
    broken = (*MIGRATIONS, ("CREATE TABLE more (x)", "CREATE TABLE profiles (x)"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(StateDamaged, match="already exists"):
            Journal(path, BOOT)

    assert not (path.parent / "instance").exists()
    assert cells_in(path) == {FIT: CELL}


def test_a_format_yet_to_come_is_one_more_migration(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, *a_bit_of_all())
    with a_journal(path) as journal:
        before = everything(journal).jobs
    more = (*MIGRATIONS, ("CREATE TABLE more (x)",))
    monkeypatch.setattr(schema, "MIGRATIONS", more)
    monkeypatch.setattr(examining, "MIGRATIONS", more)

    assert jobs_in(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(more),)


def test_f16_a_newer_format_is_refused_with_what_to_do(path: Path) -> None:
    write(path, queued(1))
    change(path, "PRAGMA user_version = 99")
    before = contents(path.parent)

    with pytest.raises(StateTooNew, match=r"state\.db.*99.*newer version") as caught:
        Journal(path, BOOT)

    assert (caught.value.version, caught.value.known) == (99, len(MIGRATIONS))
    assert contents(path.parent) == before
    change(path, f"PRAGMA user_version = {len(MIGRATIONS)}")
    assert len(jobs_in(path)) == 1  # nor does the refused one keep the lock


def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()

    write(path, queued(1))

    assert len(jobs_in(path)) == 1


def test_a_place_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(StateUnwritable, match=r"cannot keep jobs in .*XDG_STATE_HOME"):
        Journal(Path("/proc/grn/state.db"), BOOT)


def test_a_broker_killed_between_the_first_file_and_its_marker_starts_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(statefile, "write_safely", killed)
        with pytest.raises(KeyboardInterrupt):
            Journal(path, BOOT)

    write(path, Batch(), queued(1))
    assert len(jobs_in(path)) == 1
