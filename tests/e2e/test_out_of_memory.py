"""Too little memory: learned from, repaired, and reported once nothing more can be done."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing, needs
from tests.e2e.scene import (
    LONG_S,
    MIB,
    Machine,
    Scene,
    a_machine,
    check_leases,
    learn,
    row_of,
    rows_of,
    running,
    waiting,
)
from tests.e2e.watched import profile_of
from tests.waiting import until

pytestmark = pytest.mark.e2e

GPU_MIB = 1000
RUNS = 3

half = grn.job(type="half")(grabbing.hold)
most = grn.job(type="most")(grabbing.hold)


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """One GPU, and types that were learned to need 500 and 600 of its 1000 MiB."""
    with a_machine("nvml", home, GPU_MIB) as machine:
        learn(half, str(home), 500, RUNS)
        learn(most, str(home), 600, RUNS)
        yield machine


def run_out_beside_another(scene: Scene, job_type: str, retries: int) -> "grn.Future[str]":
    """Let a type known to need 100 take 600 where 500 are in use."""
    job = grn.job(type=job_type, oom_retries=retries)(needs.climb)
    learned = [job.submit(scene.place, 100, 0.1, 1) for _ in range(RUNS)]
    assert all(one.result(LONG_S) for one in learned)
    half.submit(scene.place, 500, scene.close_gate())
    scene.await_notes("holds", 1)
    return job.submit(scene.place, 600, 0.1, 1)


def notes_of(error: BaseException | None) -> list[str]:
    assert error is not None
    return error.__notes__


def test_r32_a_job_that_ran_out_of_memory_runs_again_with_an_estimate_above_that(
    machine: Machine, scene: Scene
) -> None:
    job = run_out_beside_another(scene, "r32", retries=2)

    scene.await_notes("oom", 1)
    until(lambda: [row.job_id for row in waiting()] == [job.job_id])
    assert profile_of("r32").predicted_bytes > 600 * MIB
    scene.open_gate()

    assert job.result(LONG_S) == "nvml:0"
    row = row_of(job.job_id)
    assert row.attempt == 2
    assert row.predicted_bytes > 600 * MIB
    assert len(scene.notes("oom")) == 1


def test_r32_with_retries_off_the_jobs_own_exception_is_raised_with_a_report(
    machine: Machine, scene: Scene
) -> None:
    job = run_out_beside_another(scene, "r32-off", retries=0)

    error = job.exception(LONG_S)

    assert type(error).__name__ == "OutOfMemoryError"
    assert "Tried to allocate 600.00 MiB" in str(error)
    (report,) = notes_of(error)
    assert "r32-off ran out of memory" in report
    assert "oom_retries=0" in report
    assert "asked for 600.0 MiB" in report
    row = row_of(job.job_id)
    assert (row.state, row.attempt) == ("oom", 1)


def test_r29_after_two_failed_runs_three_more_run_at_once(
    machine: Machine, scene: Scene
) -> None:
    job = grn.job(type="r29")(needs.fail_holding)
    for _ in range(2):
        assert isinstance(job.submit(scene.place, 100).exception(LONG_S), ValueError)
    gate = scene.close_gate()

    jobs = [job.submit(scene.place, 100, gate) for _ in range(3)]

    scene.await_notes("holds", 2 + 3)
    assert all(row.lease_bytes >= 100 * MIB for row in running())
    assert not any(row.measuring for row in running())
    check_leases()
    scene.open_gate()
    assert all(isinstance(one.exception(LONG_S), ValueError) for one in jobs)
    assert {row.attempt for row in rows_of("r29")} == {1}


def test_r27_a_new_type_waits_until_the_gpu_is_idle_instead_of_running_out_of_memory(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    blocker = most.submit(scene.place, 600, gate)
    scene.await_notes("holds", 1)

    new = grn.job(type="r27")(needs.climb).submit(scene.place, 700, 0.1, 1)

    until(lambda: [row.job_id for row in waiting()] == [new.job_id])
    assert "idle device" in waiting()[0].why
    scene.open_gate()
    assert blocker.result(LONG_S)
    assert new.result(LONG_S) == "nvml:0"
    assert row_of(new.job_id).attempt == 1
    assert scene.notes("oom") == []


def test_a_declared_need_lets_new_types_share_at_once(machine: Machine, scene: Scene) -> None:
    gate = scene.close_gate()
    declared = [
        grn.job(type=f"declared-{name}", memory="200MiB")(grabbing.hold) for name in "ab"
    ]

    jobs = [job.submit(scene.place, 150, gate) for job in (*declared, declared[0])]

    scene.await_notes("holds", 3)
    assert [row.measuring for row in running()] == [False] * 3
    assert all(row.lease_bytes == 200 * MIB for row in running())
    check_leases()
    scene.open_gate()
    assert all(job.result(LONG_S) for job in jobs)


def test_a_declared_need_that_is_far_too_small_is_repaired(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    half.submit(scene.place, 500, gate)
    scene.await_notes("holds", 1)

    job = grn.job(type="modest", memory="50MiB")(needs.climb).submit(scene.place, 700, 0.1, 1)

    scene.await_notes("oom", 1)
    scene.open_gate()
    assert job.result(LONG_S)
    assert row_of(job.job_id).attempt == 2
    assert 700 * MIB <= profile_of("modest").predicted_bytes <= 910 * MIB


def test_what_can_never_fit_fails_alone_with_a_report_of_what_did(
    machine: Machine, scene: Scene
) -> None:
    train = grn.job(type="never", by=("batch_size",))(needs.train)
    for batch_size in (4, 16):
        assert train(scene.place, batch_size)
    gate = scene.close_gate()
    neighbour = half.submit(scene.place, 500, gate)
    scene.await_notes("holds", 1)

    job = train.submit(scene.place, 32)
    until(lambda: [row.job_id for row in waiting()] == [job.job_id])
    scene.open_gate()
    error = job.exception(LONG_S)

    assert neighbour.result(LONG_S)
    assert type(error).__name__ == "OutOfMemoryError"
    (report,) = notes_of(error)
    print(report)
    assert "with all of nvml:0 (1000.0 MiB)" in report
    assert "it had reached 1000.0 MiB and asked for 50.0 MiB more" in report
    assert "It cannot fit here" in report
    assert "With batch_size=16 it did fit (800.0 MiB), not with batch_size=32" in report
    assert rows_of("half")[-1].attempt == 1


def test_what_can_never_fit_and_was_never_seen_fails_after_one_try_alone(
    machine: Machine, scene: Scene
) -> None:
    job = grn.job(type="never-seen")(needs.train).submit(scene.place, 32)

    error = job.exception(LONG_S)

    assert type(error).__name__ == "OutOfMemoryError"
    (report,) = notes_of(error)
    assert "with all of nvml:0 (1000.0 MiB)" in report
    assert len(scene.notes("oom")) == 1
