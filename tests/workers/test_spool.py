"""The spool: what was written is there after a crash, and a full disk loses nothing."""

import mmap
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grn_zmq import traincalls
from grn_zmq.traincalls import MARK_BYTES
from tests.builders import a_result, an_id
from workers import spool as spool_module
from workers import spoollog
from workers.spool import Spool, spool_directory
from workers.spoollog import (
    DropRecord,
    DropsRecord,
    FinishRecord,
    Record,
    ReturnedRecord,
    StartRecord,
    TrainRecord,
)

ATTEMPT = (an_id(1), 1)


def start(number: int, *, detached: bool = False) -> StartRecord:
    return StartRecord(an_id(number), 1, detached)


def finish(number: int, *, detached: bool = False, size: int = 5) -> FinishRecord:
    return FinishRecord(detached, a_result(number, payload=bytes(size)))


def drop(number: int) -> DropRecord:
    return DropRecord(an_id(number), 1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return spool_directory(tmp_path, "host-0")


class Opened:
    """One incarnation after the other in the same directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = 0
        self.spool = self._open()

    def _open(self) -> Spool:
        self.number += 1
        spool = Spool(self.directory, an_id(self.number))
        spool.begin()
        return spool

    def crash(self) -> Spool:
        """The next incarnation; nothing is written at the end of the last."""
        self.spool.close()
        self.spool = self._open()
        return self.spool

    def logs(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*.log"))


@pytest.fixture
def opened(directory: Path) -> Iterator[Opened]:
    opened = Opened(directory)
    yield opened
    opened.spool.close()


def test_the_next_incarnation_finds_results_and_what_may_have_run(opened: Opened) -> None:
    opened.spool.write([start(1), start(2, detached=True)])
    opened.spool.write([finish(2, detached=True), start(3)])
    opened.spool.write([finish(3), drop(3)])

    left = opened.crash().left

    assert left.interrupted == {(an_id(1), 1): start(1)}
    assert left.results == {(an_id(2), 1): finish(2, detached=True)}


def test_it_is_carried_on_until_it_is_recorded_and_one_log_is_left(opened: Opened) -> None:
    opened.spool.write([start(1), start(2), finish(2)])
    for _ in range(3):
        spool = opened.crash()
        assert (len(spool.left.interrupted), len(spool.left.results)) == (1, 1)
        assert opened.logs() == [f"{an_id(opened.number)}-1.log"]
    assert spool.earlier == {an_id(opened.number - 1)}

    spool.write([drop(1), drop(2)])

    assert opened.crash().left == spoollog.Left()


def test_a_torn_or_spoilt_record_was_not_written_nor_what_follows() -> None:
    records: list[Record] = [start(1), finish(1, size=100), start(2)]
    data = b"".join(map(spoollog.encode, records))

    for end in range(len(data) + 1):
        found = list(spoollog.decode(data[:end]))
        assert found == records[: len(found)]
    for at in range(len(data)):
        spoilt = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        found = list(spoollog.decode(spoilt))
        assert found == records[: len(found)]
        assert len(found) < len(records)


def test_a_torn_end_costs_only_itself(opened: Opened) -> None:
    opened.spool.write([start(1)])
    (log,) = opened.directory.glob("*.log")
    with open(log, "ab") as file:
        file.write(spoollog.encode(finish(1))[:-1])

    left = opened.crash().left

    assert (list(left.interrupted), left.results) == ([ATTEMPT], {})


def test_only_what_is_detached_is_forced_to_the_disk(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)

    opened.spool.write([start(1), finish(2)])
    opened.spool.write([drop(2)])
    assert synced == []

    opened.spool.write([start(3), start(4, detached=True), start(5, detached=True)])
    assert len(synced) == 1


def test_a_batch_is_one_write(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = os.write

    def counted(fd: int, data: bytes) -> int:
        writes.append(fd)
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)

    opened.spool.write([start(1), start(2), finish(1)])

    assert len(writes) == 1


def test_a_log_that_is_mostly_done_with_is_written_anew(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "ROTATE_BYTES", 20_000)
    opened.crash()
    opened.spool.write([start(1), start(2), finish(2, size=1000)])

    for number in range(3, 103):
        opened.spool.write([start(number), finish(number, size=1000)])
        opened.spool.write([drop(number)])

    sizes = [path.stat().st_size for path in opened.directory.glob("*.log")]
    assert len(sizes) == 1
    assert sizes[0] < 25_000
    left = opened.crash().left
    assert (list(left.interrupted), list(left.results)) == ([ATTEMPT], [(an_id(2), 1)])


def test_a_result_that_nobody_knows_is_kept_aside(opened: Opened) -> None:
    opened.spool.set_aside(a_result(7))

    (path,) = (opened.directory / "quarantine").iterdir()
    (record,) = spoollog.decode(path.read_bytes())
    assert record == FinishRecord(True, a_result(7))


def test_others_cannot_read_it(opened: Opened) -> None:
    opened.spool.write([start(1)])
    opened.spool.set_aside(a_result(7))

    files = [path for path in opened.directory.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert opened.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["GPU-1b2c", "MIG-GPU-1/2/3", "../../etc", "ü"])
def test_any_device_has_a_directory_of_its_own(tmp_path: Path, name: str) -> None:
    directory = spool_directory(tmp_path, name)

    assert directory.parent == tmp_path / "spool"
    assert directory.name not in ("", ".", "..")


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A write beyond this fails as on a full disk; what tests report to may be a file, too."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


def test_f30_a_start_that_could_not_be_written_is_not_there(opened: Opened) -> None:
    assert opened.spool.write([start(1)])
    with no_file_above(4096):
        assert not opened.spool.write([start(2), finish(1, size=4096)])

    assert not opened.spool.writable
    assert "File too large" in opened.spool.why
    left = opened.crash().left
    assert (list(left.interrupted), left.results) == ([ATTEMPT], {})


def test_f30_a_result_that_could_not_be_written_is_written_as_soon_as_it_can_be(
    opened: Opened,
) -> None:
    opened.spool.write([start(1)])
    with no_file_above(100):
        assert not opened.spool.write([finish(1)])
        assert not opened.spool.retry()

    assert opened.spool.write([start(2)])

    left = opened.crash().left
    assert (list(left.interrupted), list(left.results)) == ([(an_id(2), 1)], [ATTEMPT])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_f30_on_a_full_disk_nothing_is_lost_and_it_recovers(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        opened = Opened(spool_directory(disk, "host-0"))
        opened.spool.write([start(1), start(2)])
        filler = disk / "filler"
        with open(filler, "wb") as file:
            _fill(file.fileno())

        assert not opened.spool.write([finish(1, size=50_000), start(3)])
        assert "No space left" in opened.spool.why
        left = opened.crash().left
        assert len(left.interrupted) == 2  # as before: none of that batch

        filler.unlink()
        assert opened.spool.write([finish(1, size=50_000)])
        left = opened.crash().left
        assert list(left.results) == [ATTEMPT]
        opened.spool.close()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(fd: int) -> None:
    for size in (4096, 512, 1):
        try:
            while os.write(fd, bytes(size)):
                pass
        except OSError:
            continue


def test_f25_a_second_worker_waits_until_the_first_is_gone(directory: Path) -> None:
    first = Spool(directory, an_id(1))
    program = (
        "import sys; from pathlib import Path; from workers.spool import Spool\n"
        "print('begin', flush=True)\n"
        f"Spool(Path(sys.argv[1]), '{an_id(2)}'); print('mine', flush=True)"
    )
    second = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert second.stdout is not None
    assert second.stdout.readline() == "begin\n"
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.3)

    first.close()

    assert second.stdout.readline() == "mine\n"
    assert second.wait(10) == 0
    second.stdout.close()


def a_train(*numbers: int, train: int = 1, slot: int = 0) -> TrainRecord:
    ids = tuple(map(an_id, numbers))
    return TrainRecord(False, slot, train, tuple(range(len(ids))), ids, (1,) * len(ids))


def returned(*numbers: int) -> ReturnedRecord:
    count = len(numbers)
    ids, values = tuple(map(an_id, numbers)), (b"value",) * count
    return ReturnedRecord(False, ids, (1,) * count, (0.1,) * count, values, 5, 0.0, True)


def mark(spool: Spool, train: int, begun: int, slot: int = 0) -> None:
    """What a job process does before each call."""
    page = mmap.mmap(spool.marks.slot(slot), MARK_BYTES, offset=slot * MARK_BYTES)
    memoryview(page).cast("Q")[0] = traincalls.mark(train, begun)


def kill(opened: Opened) -> Spool:
    """The next incarnation of one that had no time to tidy up."""
    path = opened.directory / f"{opened.spool.incarnation}.marks"
    marks = path.read_bytes()
    opened.spool.close()
    path.write_bytes(marks)
    opened.spool = opened._open()
    return opened.spool


def test_of_a_train_only_what_has_begun_may_have_run(opened: Opened) -> None:
    opened.spool.write([a_train(1, 2, 3, 4)])
    mark(opened.spool, train=1, begun=3)
    opened.spool.write([returned(1, 2)])

    left = kill(opened).left

    assert list(left.interrupted) == [(an_id(3), 1)]
    assert {one: record.result.payload for one, record in left.results.items()} == {
        (an_id(1), 1): b"value",
        (an_id(2), 1): b"value",
    }


def test_a_train_of_which_nothing_has_begun_was_never_there(opened: Opened) -> None:
    opened.spool.write([a_train(1, 2)])

    assert kill(opened).left == spoollog.Left()


def test_a_later_train_tells_that_the_one_before_was_over(opened: Opened) -> None:
    opened.spool.write([a_train(1, 2, train=1)])
    mark(opened.spool, train=1, begun=1)
    opened.spool.write([returned(1)])
    opened.spool.write([a_train(3, 4, train=2)])
    mark(opened.spool, train=2, begun=1)

    left = kill(opened).left

    assert list(left.interrupted) == [(an_id(3), 1)]
    assert list(left.results) == [(an_id(1), 1)]


def test_a_new_log_has_of_columns_only_what_is_needed(opened: Opened) -> None:
    opened.spool.write([a_train(1, 2, 3)])
    mark(opened.spool, train=1, begun=2)
    opened.spool.write([returned(1), DropsRecord((an_id(1),), (1,))])
    opened.spool.retry()

    (log,) = opened.directory.glob("*.log")
    (record,) = spoollog.decode(log.read_bytes())
    assert record == replace(a_train(2, 3), places=(1, 2)), (
        "places are those of the whole train"
    )
    assert list(kill(opened).left.interrupted) == [(an_id(2), 1)]
