"""Faults of the state file and its disk: F09, F16, F17, F55, F58 and F63."""

import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from broker.changes import Batch, KeptJob
from broker.journal import Journal, JournalFailed
from broker.schema import APPLICATION_ID, MIGRATIONS
from grn_zmq.errors import StateDamaged, StateTooNew, StateUnwritable
from tests.broker.stored import (
    BOOT,
    CELL,
    FIT,
    a_bit_of_all,
    a_journal,
    an_end,
    cells_in,
    change,
    everything,
    jobs_in,
    keep,
    queued,
    write,
)
from tests.broker.trains import a_bit_of_trains
from tests.faults.journalling import LAST_LIVES
from tests.faults.mounts import MIB, fill, free_bytes, read_only, small_disk

ROOT = Path(__file__).parents[2]
KILLS = 8
FLIPS = 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


def journalling(what: str, path: Path, how: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.journalling", what, str(path), str(how)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as database:
        return bool(database.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


def all_there(jobs: list[KeptJob], told: int) -> bool:
    """Whether every job is there, those that somebody was told of at least."""
    return [one.new.number for one in jobs] == list(range(1, max(len(jobs), told) + 1))


@pytest.mark.e2e
def test_f09_a_broker_killed_in_a_checkpoint_has_lost_nothing(path: Path) -> None:
    chance = random.Random(9)
    told = 0
    for _ in range(KILLS):
        with journalling("checkpointing", path) as process:
            assert process.stdout
            for _ in range(chance.randrange(5, 60)):
                told = int(process.stdout.readline())
            process.kill()
            said = process.stdout.read().split("\n")
        # The last line may be torn: then nobody was told.
        told = int(said[-2]) if len(said) > 1 else told

        jobs = jobs_in(path)
        assert all_there(jobs, told)
        # All but the last few had ended when somebody was told of the last.
        assert all(one.end for one in jobs[: max(0, told - LAST_LIVES)])
        assert is_sound(path)


@pytest.mark.e2e
def test_f16_a_broker_killed_at_any_statement_of_a_migration_has_lost_nothing(
    path: Path, tmp_path: Path
) -> None:
    """Before there were jobs the file had profiles: those are there afterwards."""
    later = tmp_path / "later" / "state.db"
    keep(later, (FIT, CELL))
    path.parent.mkdir(mode=0o700)
    statements = [*MIGRATIONS[0], f"PRAGMA application_id = {APPLICATION_ID}"]
    change(path, *statements, "PRAGMA user_version = 1")
    change(
        path, f"ATTACH '{later}' AS later", "INSERT INTO profiles SELECT * FROM later.profiles"
    )
    died = 0
    for left in range(1, 40, 3):
        with journalling("dying", path, left) as process:
            died += process.wait() == 9

    assert died >= 5
    write(path, queued(1))
    assert len(jobs_in(path)) == 1
    assert cells_in(path) == {FIT: CELL}
    assert is_sound(path)


def test_f17_a_flipped_bit_is_noticed_or_changes_nothing(path: Path, tmp_path: Path) -> None:
    """Half of what is kept is in the file, half in its log.

    Not noticed are only bits that mean nothing: in pages that the log has anew, in room that
    is not used, in the keys of profiles, which have no checksum and may be lost.
    """
    left = tmp_path / "left"
    with a_journal(path) as journal:
        for number, batch in enumerate([*a_bit_of_trains(), *a_bit_of_all()]):
            journal.write(batch)
            if number == 7:
                journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(path.parent, left, ignore=shutil.ignore_patterns("ballast", "*-shm"))
        whole = replace(everything(journal), epoch=2)
    chance = random.Random(17)
    seen: Counter[str] = Counter()
    for _ in range(FLIPS):
        shutil.rmtree(path.parent)
        shutil.copytree(left, path.parent)
        flip_a_bit(chance.choice([path, path.with_name("state.db-wal")]), chance)
        try:
            with a_journal(path) as journal:
                assert everything(journal) == whole
        except (StateDamaged, StateTooNew) as error:
            seen[type(error).__name__] += 1
        else:
            seen["unaffected"] += 1

    assert seen["StateDamaged"] > FLIPS / 2
    assert seen["unaffected"] > 0


def flip_a_bit(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def test_f55_on_a_full_disk_no_jobs_are_taken_but_those_there_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 * MIB) as disk:
        path = disk / "state.db"
        with a_journal(path) as journal:
            assert journal.accepting
            journal.write(queued(*range(1, 51)))
            filler = fill(disk)
            journal.tick()
            assert not journal.accepting
            for number in range(1, 51):
                journal.write(Batch(ends=[an_end(number, payload=bytes(50_000))]))
            assert not (disk / "ballast").exists()
            assert free_bytes(disk) > 0

            filler.unlink()
            journal.tick()
            assert journal.accepting
            assert (disk / "ballast").exists()
            journal.write(queued(51))
            whole = everything(journal)

        with a_journal(path) as journal:
            assert everything(journal) == replace(whole, epoch=2)
        assert [one.end is not None for one in whole.jobs] == [True] * 50 + [False]


def test_f55_a_disk_without_any_room_left_ends_the_broker_and_loses_nothing(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        path = disk / "state.db"
        with a_journal(path) as journal:
            journal.write(queued(1))
            fill(disk)
            journal.write(queued(2, payload=bytes(MIB)))  # out of the ballast
            filler = fill(disk)
            with pytest.raises(JournalFailed, match="full"):
                journal.write(queued(3, payload=bytes(4 * MIB)))

        filler.unlink()
        assert [one.new.number for one in jobs_in(path)] == [1, 2]


def test_f55_a_broker_starts_on_a_full_disk_by_giving_up_the_ballast(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        path = disk / "state.db"
        write(path, queued(1))
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(2 * MIB))  # as a killed one leaves it
        fill(disk)

        with a_journal(path) as journal:
            assert not ballast.exists()
            assert not journal.accepting
            assert len(list(journal.load().jobs)) == 1
            journal.write(Batch(ends=[an_end(1)]))


def test_f55_a_full_disk_without_ballast_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        path = disk / "state.db"
        write(path, queued(1))
        filler = fill(disk)

        with pytest.raises(StateUnwritable, match="Make room"):
            Journal(path, BOOT)

        filler.unlink()
        assert len(jobs_in(path)) == 1


@pytest.mark.e2e
def test_f58_a_file_that_may_not_grow_ends_the_broker_and_loses_nothing(path: Path) -> None:
    with journalling("limited", path, 200_000) as process:
        said, complaint = process.communicate()

    assert process.returncode == 1
    assert complaint.startswith("70: ")
    numbers = [int(one) for one in said.split()]
    assert len(numbers) > 3
    assert all_there(jobs_in(path), numbers[-1])


def test_f63_a_read_only_directory_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        path = disk / "state.db"
        write(path, queued(1))

        with read_only(disk):
            with pytest.raises(StateUnwritable, match=r"(?i)read-only.*XDG_STATE_HOME"):
                Journal(path, BOOT)

        assert len(jobs_in(path)) == 1


def test_f63_a_read_only_disk_is_refused_at_the_first_start_too(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk, read_only(disk):
        with pytest.raises(StateUnwritable, match=r"(?i)read-only"):
            Journal(disk / "grn" / "state.db", BOOT)
