"""F59: the power goes at any moment; who was told that a job is kept finds it again."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.changes import Batch
from broker.journal import Journal
from grn_zmq.errors import StateMissing
from tests.broker.stored import BOOT, a_job, a_life, an_end, job_id

apsw = pytest.importorskip("apsw", reason="the recording disk needs apsw: pip install apsw")

from tests.faults.recording import Disk, RecordingVFS, Told  # noqa: E402

NEXT_BOOT = "00000000-0000-4000-8000-000000000002"
TURNS = 60
CUTS = 320


class Weakened:
    """A connection that never waits for the disk but at a checkpoint."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.executemany = connection.executemany
        self.close = connection.close

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self._connection.execute(sql.replace("= FULL", "= NORMAL"), parameters)


def turns(chance: random.Random) -> Iterator[Batch]:
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


def record(directory: Path, *, weakened: bool) -> tuple[RecordingVFS, list[Batch], Path]:
    """Write it all to a recording disk; give what happened there and the marker."""
    vfs = RecordingVFS(f"recording-{directory.name}")
    batches = list(turns(random.Random(59)))

    def connect(path: Path) -> Any:
        connection = apsw.Connection(str(path), vfs=f"recording-{directory.name}")
        connection.execute("PRAGMA wal_autocheckpoint = 25")
        return Weakened(connection) if weakened else connection

    journal = Journal(directory / "state.db", BOOT, connect=connect)
    vfs.events.append(Told(0))
    for count, batch in enumerate(batches, start=1):
        journal.write(batch)
        vfs.events.append(Told(count))
    return vfs, batches, directory / "instance"


def promised(batches: list[Batch]) -> tuple[set[str], set[str]]:
    """Detached jobs that must be there, and those of them that must have ended."""
    durable = [one for one in batches if one.durable]
    return (
        {one.spec.job_id for batch in durable for one in batch.jobs},
        {one.job_id for batch in durable for one in batch.ends},
    )


def lost_after_cuts(directory: Path, *, weakened: bool) -> int:
    """Cut the power many times; give how often something promised was gone.

    What is damaged raises, whatever the setting.
    """
    written = directory / "written"
    vfs, batches, marker = record(written, weakened=weakened)
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
            lost += not _all_there(left, batches[: disk.told])
    return lost


def _all_there(directory: Path, told: list[Batch]) -> bool:
    try:
        journal = Journal(directory / "state.db", NEXT_BOOT)
    except StateMissing:  # the first transaction of all did not wait for the disk
        return False
    try:
        jobs = {one.new.spec.job_id: one for one in journal.load().jobs}
        accepted, ended = promised(told)
        here = accepted <= jobs.keys() and all(jobs[one].end for one in ended)
        for one in accepted if here else ():
            assert journal.result(one) if jobs[one].end else journal.payload(one)
        return here
    finally:
        journal.close()


def test_f59_no_job_of_which_somebody_was_told_is_lost_in_a_power_cut(tmp_path: Path) -> None:
    assert lost_after_cuts(tmp_path, weakened=False) == 0


def test_f59_without_waiting_for_the_disk_jobs_would_be_lost(tmp_path: Path) -> None:
    assert lost_after_cuts(tmp_path, weakened=True) > 0
