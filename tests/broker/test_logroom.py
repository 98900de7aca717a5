"""What jobs printed, all of it together, stays within bounds."""

import os
from pathlib import Path

from broker.logroom import LOOK_S, LogRoom
from tests.builders import an_id


def printed(directory: Path, number: int, size: int) -> Path:
    """A log of a job; those of higher numbers are younger."""
    path = directory / f"{an_id(number)}.log"
    path.write_bytes(b"x" * size)
    os.utime(path, (number, number))
    return path


def nobody(_: str) -> bool:
    return False


def test_the_oldest_logs_go_when_there_is_too_much(tmp_path: Path) -> None:
    logs = [printed(tmp_path, number, 100) for number in range(5)]

    LogRoom(tmp_path, most_bytes=450).tick(0.0, nobody)

    assert [one.exists() for one in logs] == [False, True, True, True, True]


def test_what_live_jobs_print_stays(tmp_path: Path) -> None:
    logs = [printed(tmp_path, number, 100) for number in range(3)]

    LogRoom(tmp_path, most_bytes=150).tick(0.0, lambda job_id: job_id == an_id(0))

    assert [one.exists() for one in logs] == [True, False, False]


def test_it_looks_only_now_and_then(tmp_path: Path) -> None:
    room = LogRoom(tmp_path / "not there yet", most_bytes=50)
    room.tick(0.0, nobody)
    (tmp_path / "not there yet").mkdir()
    log = printed(tmp_path / "not there yet", 1, 100)

    room.tick(LOOK_S - 1, nobody)
    assert log.exists()
    room.tick(LOOK_S, nobody)

    assert not log.exists()
