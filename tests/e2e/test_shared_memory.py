"""Large buffers travel in memory that both sides share, and nothing of it outlives anybody."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq import shelf
from grn_zmq.parcels import find_parcels
from tests.e2e.scripts import broker_pid, running_script, write_script
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

MIB = 1 << 20
LONG_S = 30 * PATIENCE


@grn.job()
def head(data: Any, size: int = 3) -> bytes:
    return bytes(data[:size])


@grn.job()
def grow(data: Any) -> PickleBuffer:
    return PickleBuffer(bytearray(data) * 2)


@grn.job(retries=1)
def spoil(data: Any, marks: str) -> bytes:
    """Change the argument, and fail the first time."""
    seen = bytes(data[:3])
    data[:3] = b"bad"
    if not os.path.exists(marks):
        Path(marks).touch()
        raise RuntimeError("once more")
    return seen


@grn.job()
def wait_for(data: Any, gate: str, mark: str) -> int:
    total: int = sum(data[::4096])
    Path(mark).write_text(str(os.getpid()))
    while not os.path.exists(gate):
        time.sleep(0.01)
    return total


def a_buffer(letter: bytes, size: int) -> PickleBuffer:
    return PickleBuffer(bytearray(letter) * size)


def names() -> set[str]:
    """All in memory, but what this very process keeps."""
    shelf.clear_shelves()
    memory = find_parcels(os.environ).shm
    return {path.name for path in memory.iterdir()} if memory.is_dir() else set()


@pytest.fixture
def memory_is_given_back() -> Iterator[None]:
    """Idle processes of earlier tests may keep what they have; all else must go."""
    before = names()
    yield
    until(lambda: names() <= before, 30, lambda: str(names() - before))


@pytest.mark.parametrize("size", [MIB, 20 * MIB])
def test_each_job_gets_its_own_content_in_memory_that_is_used_again(size: int) -> None:
    seen = [bytes(head(a_buffer(letter, size))) for letter in (b"a", b"b", b"c", b"d")]

    assert seen == [b"aaa", b"bbb", b"ccc", b"ddd"]


def test_results_that_are_kept_stay_as_they_are() -> None:
    values: list[Any] = [grow(a_buffer(letter, 5 * MIB)) for letter in (b"a", b"b", b"c")]

    values[0][:1] = b"!"

    assert [bytes(value[:2]) for value in values] == [b"!a", b"bb", b"cc"]
    assert [bytes(value[-2:]) for value in values] == [b"aa", b"bb", b"cc"]


def test_what_a_job_changes_in_its_arguments_nobody_else_sees(tmp_path: Path) -> None:
    data = a_buffer(b"a", 5 * MIB)

    assert spoil(data, str(tmp_path / "marks")) == b"aaa"
    assert bytes(data.raw()[:3]) == b"aaa"
    assert head(a_buffer(b"b", 5 * MIB)) == b"bbb"


CLIENT = """
    import pickle, sys
    from tests.e2e.test_shared_memory import grow, wait_for
    large = pickle.PickleBuffer(bytearray(9_000_000))
    assert len(grow(large)) == 18_000_000
    futures = [wait_for.submit(large, *sys.argv[1:]) for _ in range(8)]
    print("submitted", flush=True)
    futures[0].result()
"""


@pytest.mark.usefixtures("memory_is_given_back")
@pytest.mark.parametrize("how", ["killed", "at its end"])
def test_nothing_is_left_of_a_client(tmp_path: Path, how: str) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    script = write_script(tmp_path / "client.py", CLIENT)
    with running_script(script, gate, mark) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "submitted\n"
        until(mark.exists, 30)
        assert len(names()) >= 8

        if how == "killed":
            process.kill()
        gate.touch()
        process.wait(LONG_S)


@pytest.mark.usefixtures("memory_is_given_back")
def test_nothing_is_left_of_a_job_that_is_killed_while_it_reads(tmp_path: Path) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    future = wait_for.submit(a_buffer(b"a", 9 * MIB), str(gate), str(mark))
    until(lambda: mark.exists() and mark.read_text(), 30)

    os.kill(int(mark.read_text()), signal.SIGKILL)

    with pytest.raises(grn.JobKilled):
        future.result(LONG_S)


@pytest.mark.usefixtures("memory_is_given_back")
def test_jobs_with_large_arguments_outlive_the_broker(tmp_path: Path) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    future = wait_for.submit(a_buffer(b"\1", 9 * MIB), str(gate), str(mark))
    until(lambda: mark.exists() and mark.read_text(), 30)

    os.kill(broker_pid(), signal.SIGKILL)
    gate.touch()

    assert future.result(LONG_S) == 9 * MIB // 4096
