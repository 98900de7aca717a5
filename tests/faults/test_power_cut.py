"""F59: the power goes at any moment; who was told that a job is kept finds it again."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.changes import Batch
from broker.journal import Journal
from grn_zmq.errors import StateMissing
from tests.broker.stored import BOOT, a_job, a_life, an_end, job_id
from tests.broker.trains import a_ride, a_train, an_arrival, one_by_one

apsw = pytest.importorskip("apsw", reason="the recording disk needs apsw: pip install apsw")

from tests.faults.recording import Disk, RecordingVFS, Told  # noqa: E402

NEXT_BOOT = "00000000-0000-4000-8000-000000000002"
TURNS = 60
Turns = Callable[[random.Random], Iterator[Batch]]
CUTS = 320


class Weakened:
    """A connection that never waits for the disk but at a checkpoint."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.executemany = connection.executemany
        self.close = connection.close

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self._connection.execute(sql.replace("= FULL", "= NORMAL"), parameters)


def turns_of_jobs(chance: random.Random) -> Iterator[Batch]:
    """Detached jobs come and end; now and then there is a turn of attached ones only."""
    live: list[int] = []
    number = 0
    for _ in range(TURNS):
        batch = Batch(durable=chance.random() < 0.8)
        for _ in range(chance.randrange(1, 4)):
            number += 1
            payload = bytes(chance.randrange(1, 6000))
            batch.jobs.append(a_job(number, detached=batch.durable, payload=payload))
            batch.lives.append(a_life(number))
            live.append(number)
        while len(live) > 5:
            ended = live.pop(chance.randrange(len(live)))
            if job_id(ended) not in [one.job_id for one in batch.lives]:
                batch.ends.append(an_end(ended))
        yield batch


def turns_of_trains(chance: random.Random) -> Iterator[Batch]:
    """The same with jobs that come, are placed and end together; some are forgotten."""
    live: list[int] = []
    ended: list[int] = []
    number = 0
    for _ in range(TURNS):
        batch = Batch(durable=chance.random() < 0.8)
        count, payload = chance.randrange(1, 20), bytes(chance.randrange(1, 900))
        train = a_train(number + 1, count, detached=batch.durable, payload=payload)
        batch.trains.append(train)
        placed, live = live, [*live, *range(number + 1, number + count + 1)]
        number += count
        if placed:
            batch.rides.append(a_ride(*placed))
        if len(live) > 30:
            arrived, live = live[:20], live[20:]
            batch.arrivals.append(an_arrival(*arrived))
            ended += arrived
        if len(ended) > 100:
            forgotten, ended = ended[:30], ended[30:]
            batch.forgotten += map(job_id, forgotten)
        yield batch


def record(
    directory: Path, batches: list[Batch], *, weakened: bool
) -> tuple[RecordingVFS, Path]:
    """Write it all to a recording disk; give what happened there and the marker."""
    vfs = RecordingVFS(f"recording-{directory.name}")

    def connect(path: Path) -> Any:
        connection = apsw.Connection(str(path), vfs=f"recording-{directory.name}")
        connection.execute("PRAGMA wal_autocheckpoint = 25")
        return Weakened(connection) if weakened else connection

    journal = Journal(directory / "state.db", BOOT, connect=connect)
    vfs.events.append(Told(0))
    for count, batch in enumerate(batches, start=1):
        journal.write(batch)
        vfs.events.append(Told(count))
    return vfs, directory / "instance"


def promised(batches: list[Batch], told: int) -> tuple[set[str], set[str]]:
    """Detached jobs that must be there, and those of them that must have ended.

    What was let go, also by the turn after the last that somebody was told of, may be gone.
    """
    durable = [one_by_one(one) for one in batches[:told] if one.durable]
    gone = {one for batch in batches[: told + 1] for one in batch.forgotten}
    return (
        {one.spec.job_id for batch in durable for one in batch.jobs} - gone,
        {one.job_id for batch in durable for one in batch.ends} - gone,
    )


def lost_after_cuts(
    directory: Path, batches: Iterator[Batch], *, weakened: bool = False
) -> int:
    """Cut the power many times; give how often something promised was gone.

    What is damaged raises, whatever the setting.
    """
    written = directory / "written"
    said = list(batches)
    vfs, marker = record(written, said, weakened=weakened)
    chance = random.Random(4)
    cuts = set(chance.sample(range(len(vfs.events)), min(CUTS, len(vfs.events))))
    assert len(cuts) >= 300
    disk = Disk()
    lost = 0
    for index, event in enumerate(vfs.events):
        disk.happen(event)
        if index in cuts:
            left = directory / "left"
            shutil.rmtree(left, ignore_errors=True)
            left.mkdir(mode=0o700)
            if Told(0) in vfs.events[: index + 1]:
                shutil.copy(marker, left)
            disk.lose_power(left, chance)
            lost += not _all_there(left, said, disk.told)
    return lost


def _all_there(directory: Path, said: list[Batch], told: int) -> bool:
    try:
        journal = Journal(directory / "state.db", NEXT_BOOT)
    except StateMissing:  # the first transaction of all did not wait for the disk
        return False
    try:
        jobs = {one.new.spec.job_id: one for one in journal.load().jobs}
        accepted, ended = promised(said, told)
        here = accepted <= jobs.keys() and all(jobs[one].end for one in ended)
        for one in accepted if here else ():
            assert journal.result(one) if jobs[one].end else journal.payload(one)
        return here
    finally:
        journal.close()


@pytest.mark.parametrize("turns", [turns_of_jobs, turns_of_trains])
def test_f59_no_job_of_which_somebody_was_told_is_lost_in_a_power_cut(
    tmp_path: Path, turns: Turns
) -> None:
    assert lost_after_cuts(tmp_path, turns(random.Random(59))) == 0


@pytest.mark.parametrize("turns", [turns_of_jobs, turns_of_trains])
def test_f59_without_waiting_for_the_disk_jobs_would_be_lost(
    tmp_path: Path, turns: Turns
) -> None:
    assert lost_after_cuts(tmp_path, turns(random.Random(59)), weakened=True) > 0


def test_f59_a_broker_whose_first_start_was_cut_short_starts(tmp_path: Path) -> None:
    vfs, _ = record(tmp_path / "first", [], weakened=False)
    chance = random.Random(59)
    disk = Disk()
    for event in vfs.events:
        disk.happen(event)
        for _ in range(3):
            left = tmp_path / "left"
            shutil.rmtree(left, ignore_errors=True)
            left.mkdir(mode=0o700)
            disk.lose_power(left, chance)
            with closing(Journal(left / "state.db", NEXT_BOOT)) as journal:
                assert list(journal.load().jobs) == []
