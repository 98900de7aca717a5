"""Jobs on stand-in GPUs: what they see, what is measured, and what strangers hold."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.listed import all_devices
from tests.e2e.scene import (
    LONG_S,
    MIB,
    Machine,
    Scene,
    a_machine,
    a_stranger,
    device,
    learn,
    row_of,
    rows_of,
    waiting,
)
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = pytest.mark.e2e

known = grn.job(type="known")(grabbing.hold)
look_around = grn.job(type="surroundings")(grabbing.surroundings)


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """Two GPUs of 1000 MiB, and a type that was learned to need 300."""
    with a_machine("nvml", home, 1000, 1000) as machine:
        learn(known, str(home), 300)
        yield machine


@pytest.fixture
def gpus(machine: Machine) -> FakeDriver:
    return machine.gpus


def await_strangers(index: int, mib: int) -> None:
    """Wait until the broker knows what strangers hold on a GPU."""
    until(lambda: device(index).foreign_bytes == mib * MIB)


def test_r48_without_a_restriction_all_gpus_are_managed(gpus: FakeDriver) -> None:
    assert [row.facts.uuid for row in all_devices()] == [gpus.uuid(0), gpus.uuid(1)]


def test_r42_p09_a_job_sees_its_gpu_alone_before_its_first_line(gpus: FakeDriver) -> None:
    job = look_around.submit()
    seen = job.result(LONG_S)

    leased = gpus.uuid(int(row_of(job.job_id).device[-1]))
    assert seen["VISIBLE_AT_IMPORT"] == leased
    assert seen["CUDA_VISIBLE_DEVICES"] == leased
    assert seen["NV_GPU"] == leased
    assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_r104_frameworks_that_take_a_whole_card_are_tamed_unless_the_user_says_otherwise(
    gpus: FakeDriver,
) -> None:
    by_default = look_around()
    chosen = look_around.with_options(env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"})()

    assert by_default["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert by_default["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert chosen["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    assert chosen["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_r44_a_job_gets_the_gpu_it_is_charged_for_even_if_cuda_counts_otherwise(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate = scene.close_gate()
    gpus.set_cuda_order([1, 0])

    for _ in range(2):
        known.submit(scene.place, 300, gate)

    holding = {one.device: one.pid for one in scene.await_notes("holds", 2)}
    gpus.set_cuda_order([0, 1])
    assert gpus.by_pid(0) == {holding["nvml:0"]: 300}
    assert gpus.by_pid(1) == {holding["nvml:1"]: 300}


def test_p14_after_each_job_no_memory_is_left_on_its_gpu(
    gpus: FakeDriver, scene: Scene
) -> None:
    for _ in range(3):
        index = int(known(scene.place, 300)[-1])

        assert gpus.used_mib(index) == 0
    assert len({one.pid for one in scene.notes()}) == 3


def test_p30_two_jobs_of_one_client_can_use_different_gpus(
    gpus: FakeDriver, scene: Scene
) -> None:
    used = []
    for taken in (0, 1):
        with a_stranger() as pid:
            gpus.hold(taken, pid, 500)
            await_strangers(taken, 500)
            used.append(known(scene.place, 300))
        await_strangers(taken, 0)

    assert used == ["nvml:1", "nvml:0"]


def test_r52_memory_of_strangers_is_respected_until_they_are_gone(
    gpus: FakeDriver, scene: Scene
) -> None:
    with a_stranger() as first, a_stranger() as second:
        gpus.hold(0, first, 800)
        gpus.hold(1, second, 800)
        await_strangers(0, 800)
        await_strangers(1, 800)
        job = known.submit(scene.place, 300)
        until(lambda: [row.job_id for row in waiting()] == [job.job_id])
        assert re.match(
            r"waiting for memory: needs 3\d\d\.\d MiB, device \d has 200\.0 MiB free",
            waiting()[0].why,
        )
        gpus.hold(1, second, 0)  # still alive, but it has freed its memory

        assert job.result(LONG_S) == "nvml:1"
    await_strangers(0, 0)


def test_r52_a_stranger_on_one_gpu_leaves_the_other_to_jobs(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate = scene.close_gate()
    with a_stranger() as pid:
        gpus.hold(0, pid, 600)
        await_strangers(0, 600)
        jobs = [known.submit(scene.place, 300, gate) for _ in range(5)]
        scene.await_notes("holds", 4)
        until(lambda: len(waiting()) == 1)
        assert sorted(one.device for one in scene.notes("holds")) == [
            "nvml:0",
            *["nvml:1"] * 3,
        ]
    scene.await_notes("holds", 5)
    scene.open_gate()
    assert all(job.result(LONG_S) for job in jobs)


def test_l10_a_small_job_beside_a_large_one_learns_its_own_memory_only(
    gpus: FakeDriver, scene: Scene
) -> None:
    large = grn.job(type="l10-large", policy="pack")(grabbing.hold)
    small = grn.job(type="l10-small", policy="pack")(grabbing.hold)
    large(scene.place, 700)
    small(scene.place, 50)
    gate, other = scene.close_gate(), scene.close_gate("other")
    large.submit(scene.place, 700, other)
    scene.await_notes("holds", 3)

    beside = small.submit(scene.place, 100, gate)
    scene.await_notes("holds", 4)
    until(lambda: row_of(beside.job_id).used_bytes)
    scene.open_gate()

    beside.result(LONG_S)
    assert len({one.device for one in scene.notes("holds")[2:]}) == 1
    assert row_of(beside.job_id).peak_bytes == 100 * MIB
    assert rows_of("l10-large")[0].peak_bytes == 700 * MIB


def test_r56_a_job_that_never_used_its_gpu_returns_its_value_and_one_warning(
    gpus: FakeDriver, scene: Scene
) -> None:
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="WARNING")
    idle = grn.job(type="r56")(grabbing.hold)

    values = [idle(scene.place) for _ in range(3)]

    logger.remove(sink)
    assert [value[:5] for value in values] == ["nvml:"] * 3
    assert len(said) == 1
    assert "r56 was never seen to use its GPU" in said[0]
    assert "--pid=host" in said[0]


def test_r58_a_poll_that_fails_is_logged_and_scheduling_goes_on(
    machine: Machine, gpus: FakeDriver, scene: Scene
) -> None:
    before = machine.server.log().count("could not read the device")

    gpus.fail_next("memory", times=2)
    until(lambda: gpus.failures_left("memory") == 0)

    assert known(scene.place, 300)
    until(lambda: machine.server.log().count("could not read the device") > before)


def test_r58_polls_that_fail_while_a_job_runs_cost_it_nothing(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate = scene.close_gate()
    job = known.submit(scene.place, 300, gate)
    scene.await_notes("holds", 1)

    gpus.fail_next("processes", times=3)
    until(lambda: gpus.failures_left("processes") == 0)
    scene.open_gate()

    assert job.result(LONG_S)
    assert row_of(job.job_id).peak_bytes == 300 * MIB
