"""What the worker keeps of what its jobs print, and what it does when the disk fails."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from grn_zmq.logfiles import LogFiles
from tests.builders import a_run, an_id
from workers import joblogs
from workers.joblogs import JobLogs

JOB = an_id(1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "logs"


@pytest.fixture
def logs(directory: Path) -> Iterator[JobLogs]:
    """Logs that leave no file open."""
    before = len(os.listdir("/proc/self/fd"))
    logs = JobLogs(directory)
    yield logs
    logs.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    heard: list[str] = []
    sink = logger.add(heard.append, level="WARNING")
    yield heard
    logger.remove(sink)


class Disk:
    """Writes as long as it is not full."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = joblogs._write_all
        patch.setattr(joblogs, "_write_all", self.write)

    def write(self, fd: int, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._write(fd, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def log_of(directory: Path, job_id: str = JOB) -> bytes:
    return LogFiles(directory, job_id).log.read_bytes()


def test_a_job_that_prints_nothing_costs_nothing(logs: JobLogs, directory: Path) -> None:
    logs.begin(a_run(1))
    logs.end(JOB)

    assert not directory.exists()


def test_the_directory_of_logs_is_for_its_user_alone(logs: JobLogs, directory: Path) -> None:
    logs.write(JOB, "stdout", b"hello\n")

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert log_of(directory) == b"hello\n"


def test_a_later_attempt_begins_with_a_line(logs: JobLogs, directory: Path) -> None:
    logs.begin(a_run(1))
    logs.write(JOB, "stdout", b"first\n")
    logs.end(JOB)

    logs.begin(a_run(1, attempt=2))
    logs.write(JOB, "stdout", b"second\n")

    assert log_of(directory) == b"first\ngrn: attempt 2 on host:0\nsecond\n"
    assert LogFiles(directory, JOB).streams.read_bytes() == b"stderr 6\nstdout 31\n"


def test_the_line_of_an_attempt_stands_by_itself(logs: JobLogs, directory: Path) -> None:
    logs.write(JOB, "stdout", b"50 %")
    logs.end(JOB)

    logs.begin(a_run(1, attempt=2))

    assert log_of(directory) == b"50 %\ngrn: attempt 2 on host:0\n"


def test_a_removed_directory_is_made_again(logs: JobLogs, directory: Path) -> None:
    logs.write(JOB, "stdout", b"one\n")
    LogFiles(directory, JOB).log.unlink()
    directory.rmdir()

    logs.write(an_id(2), "stdout", b"two\n")

    assert log_of(directory, an_id(2)) == b"two\n"


def test_a_full_disk_is_warned_of_once_and_told_where_bytes_are_missing(
    logs: JobLogs, directory: Path, disk: Disk, warnings: list[str]
) -> None:
    logs.write(JOB, "stdout", b"one")
    disk.full = True
    for _ in range(100):
        logs.write(JOB, "stdout", b"lost\n")
        logs.write(JOB, "stderr", b"lost\n")
    disk.full = False
    logs.write(JOB, "stdout", b"two\n")

    said = b"grn: 1000 bytes of output are missing here: they could not be written\n"
    assert log_of(directory) == b"one\n" + said + b"two\n"
    assert len(warnings) == 1


def test_half_a_piece_on_a_full_disk_spoils_nothing_that_follows(
    logs: JobLogs, directory: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(JOB, "stdout", b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(joblogs, "_write_all", half_write)
        logs.write(JOB, "stderr", b"lost")
    logs.write(JOB, "stdout", b"two\n")

    files = LogFiles(directory, JOB)
    assert files.log.read_bytes().endswith(b"\ntwo\n")
    changes = files.streams.read_bytes().split(b"\n")
    assert changes[0] == b"stde"
    assert [line.split()[0] for line in changes[1:-1]] == [b"stderr", b"stdout"]


def half_write(fd: int, data: bytes) -> None:
    os.write(fd, data[:4])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_directory_to_be_had_hurts_nobody(
    tmp_path: Path, directory: Path, logs: JobLogs, warnings: list[str]
) -> None:
    (tmp_path / "state").write_text("a file")

    logs.begin(a_run(1, attempt=2))
    logs.write(JOB, "stdout", b"one\n")
    logs.end(JOB)

    assert len(warnings) == 1


def test_a_log_is_not_followed_to_where_a_link_points(
    logs: JobLogs, directory: Path, tmp_path: Path
) -> None:
    directory.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    LogFiles(directory, JOB).log.symlink_to(elsewhere)

    logs.write(JOB, "stdout", b"one\n")

    assert elsewhere.read_bytes() == b"mine"
