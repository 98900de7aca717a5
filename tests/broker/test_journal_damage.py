"""State files that are broken, foreign or incomplete: refused, and left as they are."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.journal import Journal
from grn_zmq.errors import StateDamaged
from tests.broker.stored import (
    BOOT,
    a_bit_of_all,
    a_journal,
    change,
    contents,
    jobs_in,
    queued,
    write,
)

LATER_BOOT = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


def as_if_killed(path: Path, into: Path) -> Path:
    """What a broker that dies now would leave behind."""
    shutil.copytree(path.parent, into, ignore=shutil.ignore_patterns("ballast"))
    return into / path.name


def garbage(path: Path) -> None:
    path.write_bytes(b"this was never a database, but it is long enough to be one" * 100)


def torn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:12288] = os.urandom(8192)
    path.write_bytes(content)


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def of_another_program(path: Path) -> None:
    path.unlink()
    change(path, "CREATE TABLE bookmarks (url TEXT)")


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def without_a_table(path: Path) -> None:
    change(path, "DROP TABLE outcomes")


def with_another_table(path: Path) -> None:
    change(path, "DROP TABLE sessions", "CREATE TABLE sessions (name)")


def of_an_older_format(path: Path) -> None:
    change(path, "PRAGMA user_version = 1")


def without_a_version(path: Path) -> None:
    change(path, "PRAGMA user_version = 0")


def without_an_epoch(path: Path) -> None:
    change(path, "DELETE FROM meta WHERE key = 'epoch'")


def with_another_epoch(path: Path) -> None:
    change(path, "UPDATE meta SET value = '1' WHERE key = 'epoch'")


@pytest.mark.parametrize(
    "spoil",
    [
        garbage,
        torn,
        shortened,
        of_another_program,
        a_directory,
        without_a_table,
        with_another_table,
        of_an_older_format,
        without_a_version,
        without_an_epoch,
        with_another_epoch,
    ],
)
@pytest.mark.parametrize("boot_id", [BOOT, LATER_BOOT])
def test_a_damaged_or_foreign_file_is_refused_and_left_as_it_is(
    path: Path, spoil: Callable[[Path], None], boot_id: str
) -> None:
    write(path, *a_bit_of_all())
    write(path)  # so that its epoch is no longer the first
    spoil(path)
    before = contents(path.parent)

    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"state\.db is damaged.*does not start"):
            Journal(path, boot_id)

    assert contents(path.parent) == before
    assert [one.name for one in path.parent.iterdir() if "damaged" in one.name] == []


def test_a_foreign_file_is_refused_where_there_was_never_one_of_ours(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    garbage(path)
    before = contents(path.parent)

    with pytest.raises(StateDamaged):
        Journal(path, BOOT)

    assert {**before, "state.lock": b""} == contents(path.parent)


def test_f17_a_log_that_is_gone_is_missed_though_the_file_is_sound(
    path: Path, tmp_path: Path
) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        journal.write(queued(2))
        left = as_if_killed(path, tmp_path / "left")
    left.with_name("state.db-wal").unlink()

    with pytest.raises(StateDamaged, match="last 1 changes are missing"):
        Journal(left, BOOT)

    # In another boot nobody can tell it from what a power cut does to attached jobs.
    assert [one.new.number for one in jobs_in(left, LATER_BOOT)] == [1]


def test_a_refused_log_is_still_there_for_whoever_wants_to_repair_it(
    path: Path, tmp_path: Path
) -> None:
    with a_journal(path) as journal:
        for batch in a_bit_of_all():
            journal.write(batch)
        left = as_if_killed(path, tmp_path / "left")
    log = left.with_name("state.db-wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)

    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"changes are missing.*-wal"):
            Journal(left, BOOT)

    assert log.read_bytes() == content


def test_a_backup_is_taken_when_its_lock_is_removed_as_the_text_says(
    path: Path, tmp_path: Path
) -> None:
    write(path, queued(1))
    shutil.copy(path, tmp_path / "backup")
    write(path, queued(2))
    shutil.copy(tmp_path / "backup", path)

    with pytest.raises(StateDamaged, match=r"backup.*remove state\.lock"):
        Journal(path, BOOT)

    (path.parent / "state.lock").unlink()
    assert [one.new.number for one in jobs_in(path)] == [1]


def test_a_note_that_is_none_says_nothing(path: Path) -> None:
    write(path, queued(1))
    (path.parent / "state.lock").write_bytes(b"\0garbage 7 8\n")

    assert len(jobs_in(path)) == 1
