"""Memory of processes that are none of ours: respected as it comes and goes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import (
    LONG_S,
    MIB,
    Machine,
    Scene,
    a_machine,
    a_stranger,
    check_leases,
    device,
    learn,
    running,
    waiting,
)
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = pytest.mark.e2e

GIB_MIB = 1024
GPU_GIB, STRANGER_GIB = 24, 18
REACTION_S = 2.0
RUNS = 5

five = grn.job(type="five")(grabbing.hold)
eight = grn.job(type="eight")(grabbing.hold)


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """Two GPUs of 24 GiB, and types that were learned to need 5 and 8."""
    with a_machine("nvml", home, *[GPU_GIB * GIB_MIB] * 2) as machine:
        learn(five, str(home), 5 * GIB_MIB, RUNS)
        learn(eight, str(home), 8 * GIB_MIB, RUNS)
        yield machine


@pytest.fixture
def gpus(machine: Machine) -> FakeDriver:
    return machine.gpus


def await_strangers(index: int, gib: int, seconds: float = REACTION_S) -> None:
    """Wait until the broker knows what strangers hold on a GPU."""
    until(
        lambda: device(index).foreign_bytes == gib * GIB_MIB * MIB,
        seconds,
        lambda: f"{device(index)}",
    )


def test_beside_18_of_24_gib_small_jobs_still_run_and_large_ones_go_elsewhere(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate = scene.close_gate()
    with a_stranger() as pid:
        gpus.hold(0, pid, STRANGER_GIB * GIB_MIB)
        await_strangers(0, STRANGER_GIB)

        large = [eight.submit(scene.place, 8 * GIB_MIB, gate) for _ in range(4)]
        large_on = [one.device for one in scene.await_notes("holds", 2)]
        small = [five.submit(scene.place, 5 * GIB_MIB, gate) for _ in range(2)]
        small_on = [one.device for one in scene.await_notes("holds", 4)[2:]]

        assert large_on == ["nvml:1"] * 2
        assert sorted(small_on) == ["nvml:0", "nvml:1"]
        assert [row.job_type for row in waiting()] == ["eight"] * 2
        check_leases()
        gpus.hold(0, pid, 0)
        freed = time.monotonic()

        # L03: nobody has ended.
        later = scene.await_notes("holds", 6, REACTION_S)[4:]
        print(f"jobs held memory {time.monotonic() - freed:.2f} s after a stranger freed it")
        assert [one.device for one in later] == ["nvml:0"] * 2
    scene.open_gate()
    assert all(job.result(LONG_S) for job in [*large, *small])
    assert scene.notes("oom") == []


def test_what_a_stranger_takes_is_known_within_two_seconds(
    gpus: FakeDriver, scene: Scene
) -> None:
    took_s = []
    with a_stranger() as pid:
        for _ in range(3):
            for gib in (STRANGER_GIB, 0):
                gpus.hold(0, pid, gib * GIB_MIB)
                changed = time.monotonic()
                await_strangers(0, gib)
                took_s.append(time.monotonic() - changed)
                used = eight(scene.place, 8 * GIB_MIB)
                assert gib == 0 or used == "nvml:1"
    print("a stranger is seen after", ", ".join(f"{one:.2f} s" for one in took_s))


def test_a_job_that_meets_a_stranger_nobody_knew_of_runs_again_elsewhere(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate = scene.close_gate()
    blocker = eight.submit(scene.place, 8 * GIB_MIB, gate)
    taken = int(scene.await_notes("holds", 1)[0].device[-1])
    with a_stranger() as pid:
        gpus.hold(1 - taken, pid, STRANGER_GIB * GIB_MIB)

        job = eight.submit(scene.place, 8 * GIB_MIB)  # spread: to the GPU that seems empty

        assert job.result(LONG_S) == f"nvml:{taken}"
    scene.open_gate()
    assert blocker.result(LONG_S)


def test_r103_what_a_process_keeps_after_its_job_stays_taken_until_it_ends(
    gpus: FakeDriver, scene: Scene
) -> None:
    gate, end = scene.close_gate(), scene.close_gate("end")
    keep = f"grn.job(type='r103', inline=True)(g.keep)(place, {10 * GIB_MIB})"
    client = scene.client(f"{keep}; g.note(place, 'returned'); g.wait_at(place, {end!r})")
    scene.await_notes("returned", 1, 20)
    (kept,) = {int(one.device[-1]) for one in scene.notes("keeps")}
    assert gpus.used_mib(kept) == 10 * GIB_MIB
    await_strangers(kept, 10)

    jobs = [eight.submit(scene.place, 8 * GIB_MIB, gate) for _ in range(4)]

    held = [one.device for one in scene.await_notes("holds", 3)]
    assert sorted(held) == sorted([f"nvml:{kept}", *[f"nvml:{1 - kept}"] * 2])
    until(lambda: len(waiting()) == 1 and len(running()) == 3)
    check_leases()
    scene.open_gate("end")
    client.wait(LONG_S)
    assert scene.await_notes("holds", 4, REACTION_S)[3].device == f"nvml:{kept}"
    scene.open_gate()
    assert all(job.result(LONG_S) for job in jobs)
