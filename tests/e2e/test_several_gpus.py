"""Jobs of several whole GPUs, on stand-ins: which they get, what is measured, who waits."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e import grabbing
from tests.e2e.listed import all_devices
from tests.e2e.scene import LONG_S, MIB, Scene, device, row_of, waiting
from tests.nvml import jobs
from tests.nvml.driver import FakeDriver
from tests.waiting import until
from tests.workers.stage import read_when_there

pytestmark = pytest.mark.e2e

CLOSEST = [1, 2]

pair = grn.job(type="pair", gpus=2)(jobs.hold_each)
ranks = grn.job(type="ranks", gpus=2)(jobs.ranks)
alone = grn.job(type="alone", exclusive=True)(grabbing.hold)
look_around = grn.job(type="surroundings")(grabbing.surroundings)


@pytest.fixture(scope="module")
def gpus(home: Path) -> Iterator[FakeDriver]:
    """Three GPUs of 1000 MiB, the last two of which are closest, and a broker for them."""
    driver = FakeDriver(home / "nvml", [1000, 1000, 1000])
    driver.set_level(0, 1, 50)
    driver.set_level(1, 2, 10)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        with grn.start("nvml", max_jobs=8, debug=True):
            until(lambda: len(all_devices()) == 3)
            yield driver
            forget_client()


@pytest.fixture
def path(tmp_path: Path, scene: Scene) -> Iterator[Path]:
    """Where a pair says who holds what; before the scene ends it may end."""
    path = tmp_path / "pids"
    yield path
    end(path)


def end(path: Path) -> None:
    path.with_name("pids.end").touch()


def indices(gpus: FakeDriver, uuids: list[str]) -> list[int]:
    return [[gpus.uuid(index) for index in range(3)].index(uuid) for uuid in uuids]


def devices_of(job_id: str) -> list[int]:
    return [int(index) for index in row_of(job_id).device.removeprefix("nvml:").split(",")]


def worker_of(index: int) -> int | None:
    """The process that owns a GPU; None while there is none."""
    found = [row.worker_pid for row in all_devices() if row.facts.index == index]
    return found[0] if found else None


def test_r70_p22_a_job_of_two_gpus_gets_two_and_is_measured_on_both(
    gpus: FakeDriver, path: Path
) -> None:
    job = pair.submit(str(path), 100, 200)
    pid, _ = json.loads(read_when_there(path))
    first, second = devices_of(job.job_id)
    until(
        lambda: (device(first).used_bytes, device(second).used_bytes) == (100 * MIB, 200 * MIB)
    )
    until(lambda: device(second).foreign_bytes == 0)  # its own worker takes it for a stranger
    leased = [row.leased_bytes // MIB for row in all_devices()]
    end(path)

    assert indices(gpus, job.result(LONG_S)) == [first, second]
    assert leased[first] == leased[second] == 1000
    assert row_of(job.job_id).peak_bytes == 200 * MIB
    assert row_of(job.job_id).pid in (0, pid)


def test_p35_the_two_gpus_are_the_closest(gpus: FakeDriver, path: Path) -> None:
    until(lambda: not any(row.processes for row in all_devices()))
    end(path)

    assert sorted(indices(gpus, pair(str(path), 10, 10))) == CLOSEST


def test_r70_who_waits_for_two_gpus_holds_none_of_them(
    gpus: FakeDriver, path: Path, scene: Scene
) -> None:
    gates = [scene.close_gate("one"), scene.close_gate("two")]
    for gate in gates:
        alone.submit(scene.place, 100, gate)
    taken = {int(one.device[-1]) for one in scene.await_notes("holds", 2)}
    (free,) = {0, 1, 2} - taken

    job = pair.submit(str(path), 10, 10)
    until(lambda: [row.job_id for row in waiting()] == [job.job_id])

    assert waiting()[0].why.startswith(f"waiting for 2 idle devices: free are device {free}")
    assert (device(free).leased_bytes, device(free).jobs) == (0, 0)
    scene.open_gate("one")
    end(path)
    assert free in indices(gpus, job.result(LONG_S))
    scene.open_gate("two")


def test_p04_minus_one_means_all_gpus(gpus: FakeDriver, path: Path) -> None:
    end(path)

    found = pair.with_options(gpus=-1, type="all")(str(path), 10, 20, 30)

    assert sorted(indices(gpus, found)) == [0, 1, 2]


@pytest.mark.parametrize("count", [-2, 2.5, True, "2 or 3"])
def test_p05_a_count_that_means_nothing_is_refused_where_it_is_written(count: object) -> None:
    with pytest.raises((ValueError, TypeError), match="gpus"):
        pair.with_options(gpus=count)


def test_p05_more_gpus_than_there_are_fail_at_once_with_both_numbers(
    gpus: FakeDriver, path: Path
) -> None:
    with pytest.raises(grn.JobError, match="4 devices, 3 are managed"):
        pair.with_options(gpus=4)(str(path))


def test_a_job_without_a_gpu_sees_none_and_waits_for_none(
    gpus: FakeDriver, scene: Scene
) -> None:
    gates = [scene.close_gate(name) for name in ("one", "two", "three")]
    for gate in gates:
        alone.submit(scene.place, 100, gate)
    scene.await_notes("holds", 3)

    seen = look_around.with_options(gpus=0, type="no-gpu")()

    assert seen["CUDA_VISIBLE_DEVICES"] == seen["NV_GPU"] == seen["GRN_DEVICE"] == ""


def test_ranks_of_a_job_are_measured_each_on_its_gpu(
    gpus: FakeDriver, path: Path, scene: Scene
) -> None:
    job = ranks.submit(str(path), 150, 250)
    read_when_there(path)
    first, second = devices_of(job.job_id)
    until(
        lambda: (device(first).used_bytes, device(second).used_bytes) == (150 * MIB, 250 * MIB)
    )
    end(path)

    job.result(LONG_S)
    assert row_of(job.job_id).peak_bytes == 250 * MIB


def test_the_death_of_the_other_gpus_worker_touches_neither_the_job_nor_its_lease(
    gpus: FakeDriver, path: Path, scene: Scene
) -> None:
    job = pair.submit(str(path), 100, 200)
    read_when_there(path)
    first, other = devices_of(job.job_id)
    alone.submit(scene.place, 100, scene.close_gate())
    scene.await_notes("holds", 1)
    killed = device(other).worker_pid

    os.kill(killed, signal.SIGKILL)
    until(lambda: worker_of(other) not in (None, killed), 20)
    late = alone.submit(scene.place, 100)
    until(lambda: [row.job_id for row in waiting()] == [late.job_id])
    until(lambda: device(other).used_bytes == 200 * MIB, 20)

    assert row_of(late.job_id).state == "queued"
    assert device(other).leased_bytes == 1000 * MIB
    end(path)
    assert len(job.result(LONG_S)) == 2
    assert late.result(LONG_S) in (f"nvml:{first}", f"nvml:{other}")
    scene.open_gate()
