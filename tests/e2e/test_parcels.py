"""Large arguments and results: by file, whatever their size, and nothing is left of them."""

import os
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.parcels import find_parcels
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

MIB = 1 << 20
LONG_S = 30 * PATIENCE


@grn.job()
def reverse(data: bytes) -> bytes:
    return data[::-1]


@grn.job()
def fails(data: bytes) -> None:
    raise ValueError(data)


def files() -> list[str]:
    parcels = find_parcels(os.environ)
    places = [place for place in (parcels.shm, parcels.disk) if place.is_dir()]
    found = (path.name for place in places for path in place.iterdir())
    return [name for name in found if not name.endswith(".lock") and name[:5] != "kept-"]


def content(size: int) -> bytes:
    return bytes(range(251)) * (size // 251)


@pytest.mark.parametrize("size", [MIB // 8 - 500, MIB // 8, MIB, 3 * MIB, 40 * MIB])
def test_any_size_travels_both_ways(size: int) -> None:
    data = content(size)

    assert reverse(data) == data[::-1]


def test_a_large_exception_comes_as_it_was_raised() -> None:
    data = content(2 * MIB)

    with pytest.raises(ValueError) as raised:
        fails(data)

    assert raised.value.args == (data,)


def test_arguments_are_gone_when_their_job_has_ended() -> None:
    before = set(files())
    futures = [reverse.submit(content(2 * MIB)) for _ in range(3)]
    tokens = set(files()) - before

    for future in futures:
        future.result(LONG_S)

    assert len(tokens) >= 3
    until(lambda: not [one for one in tokens if one in files()], 90)


def test_a_detached_job_keeps_its_result_on_disk() -> None:
    data = content(2 * MIB)
    job_id = reverse.spawn(data)

    first = grn.attach(job_id).result(LONG_S)
    second = grn.attach(job_id).result(LONG_S)

    assert first == second == data[::-1]
    assert any(name.startswith("disk-") for name in files())


def test_a_result_whose_file_is_gone_has_expired() -> None:
    job_id = reverse.spawn(content(2 * MIB))
    future = grn.attach(job_id)
    future.result(LONG_S)
    assert future.outcome is not None
    assert future.outcome.token

    find_parcels(os.environ).remove(future.outcome.token)

    with pytest.raises(grn.ResultExpired):
        grn.attach(job_id).result(LONG_S)


def test_a_cancelled_task_of_an_executor_leaves_no_arguments(tmp_path: Path) -> None:
    before = set(files())
    with grn.Executor(max_workers=1) as pool:
        running = pool.submit(wait_for, str(tmp_path / "gate"))
        held = pool.submit(len, content(2 * MIB))
        assert len(set(files()) - before) == 1

        assert held.cancel()

        assert set(files()) - before == set()
        (tmp_path / "gate").touch()
        running.result(LONG_S)


def wait_for(gate: str) -> None:
    until(lambda: os.path.exists(gate))
