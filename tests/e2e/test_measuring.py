"""First runs: alone, one at a time, and whatever their end, the device is free after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.listed import all_devices
from tests.e2e.scene import (
    ENOUGH_RUNS,
    LONG_S,
    MIB,
    Machine,
    Scene,
    a_machine,
    learn,
    row_of,
    rows_of,
    running,
    waiting,
)
from tests.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", params=["nvml", "host"])
def machine(request: pytest.FixtureRequest, home: Path) -> Iterator[Machine]:
    """One device: whoever keeps it, keeps it from everybody."""
    with a_machine(request.param, home, 1000) as machine:
        yield machine


def test_r24_the_first_of_a_new_type_runs_to_its_end_before_the_others_start(
    machine: Machine, scene: Scene
) -> None:
    new = grn.job(type="r24")(grabbing.hold)
    gate = scene.close_gate()
    jobs = [new.submit(scene.place, machine.mib(300), gate) for _ in range(3)]
    scene.await_notes("holds", 1)

    until(lambda: len(waiting()) == 2)
    assert [row.measuring for row in running()] == [True]
    assert scene.words() == ["start", "holds"]
    scene.open_gate()

    assert all(job.result(LONG_S) for job in jobs)
    first_end = scene.words().index("end")
    assert scene.words()[:first_end].count("start") == 1


def test_r65_a_twin_of_a_job_that_is_measured_says_what_it_waits_for(
    machine: Machine, scene: Scene
) -> None:
    new = grn.job(type="r65")(grabbing.hold)
    gate = scene.close_gate()
    new.submit(scene.place, 0, gate)
    scene.await_notes("holds", 1)

    twin = new.submit(scene.place)

    until(lambda: row_of(twin.job_id).why == "waiting for profile of r65")
    assert all_devices()[0].measuring == "r65"


def test_r49_r51_of_twenty_jobs_of_a_known_type_exactly_three_run_at_once(
    machine: Machine, scene: Scene
) -> None:
    known = grn.job(type="r49")(grabbing.hold)
    learn(known, scene.place, machine.mib(300))
    first, others = scene.close_gate("first"), scene.close_gate("others")

    gates = [first, *[others] * 19]
    jobs = [known.submit(scene.place, machine.mib(300), gate) for gate in gates]

    scene.await_notes("holds", ENOUGH_RUNS + 3)
    until(lambda: len(waiting()) == 17)
    assert len(running()) == 3
    assert waiting()[0].why.startswith("waiting for memory: needs ")
    scene.open_gate("first")
    scene.await_notes("holds", ENOUGH_RUNS + 4)
    until(lambda: len(waiting()) == 16)
    assert len(running()) == 3
    scene.open_gate("others")
    assert all(job.result(LONG_S) for job in jobs)
    assert max(row.peak_bytes for row in rows_of("r49")) >= machine.mib(300) * MIB


@pytest.mark.parametrize("how", ["raise", "exit", "_exit", "kill"])
def test_r33_however_a_measuring_run_ends_the_device_is_free_at_once(
    how: str, machine: Machine, scene: Scene
) -> None:
    ends = grn.job(type=f"r33-{how}")(grabbing.leave)

    first = ends.submit(scene.place, machine.mib(300), how)
    error = first.exception(LONG_S)
    again = ends.submit(scene.place, machine.mib(300), "return")

    until(lambda: len(scene.notes("return")) == 1, 2)
    assert again.result(LONG_S) is None
    match how:
        case "raise":
            assert isinstance(error, ValueError)
        case "kill":
            assert isinstance(error, grn.JobKilled)
            assert error.signal == 9
        case _:
            assert isinstance(error, grn.JobExited)
            assert error.exit_status == 3


def test_r28_a_run_that_raised_teaches_nothing_and_the_next_is_measured_again(
    machine: Machine, scene: Scene
) -> None:
    kind = "r28"
    with pytest.raises(ValueError):
        grn.job(type=kind)(grabbing.leave)(scene.place, machine.mib(300), "raise")
    gate = scene.close_gate()

    second = grn.job(type=kind)(grabbing.hold).submit(scene.place, 0, gate)

    scene.await_notes("holds", 1)
    assert row_of(second.job_id).measuring


def test_r30_after_a_failed_measuring_run_another_type_runs_within_a_second(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    other = grn.job(type="r30-other")(grabbing.hold)
    failing = grn.job(type="r30")(grabbing.fail_later).submit(scene.place, gate)
    scene.await_notes("start", 1)
    other.submit(scene.place)
    until(lambda: len(waiting()) == 1)

    scene.open_gate()

    assert isinstance(failing.exception(LONG_S), RuntimeError)
    until(lambda: len(scene.notes("start")) == 2, 1)


def test_p11_an_exception_frees_the_device_though_its_client_stays_connected(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    failing = grn.job(type="p11")(grabbing.fail_later).submit(scene.place, gate)
    scene.await_notes("start", 1)
    other = scene.client("print(grn.job(type='p11-other')(g.hold)(place))")
    until(lambda: len(waiting()) == 1)

    scene.open_gate()

    assert isinstance(failing.exception(LONG_S), RuntimeError)
    until(lambda: len(scene.notes("start")) == 2, 1)
    said, _ = other.communicate(timeout=LONG_S)
    assert said.strip() == f"{machine.kind}:0"


def test_p10_a_crash_of_the_job_frees_its_memory(machine: Machine, scene: Scene) -> None:
    crashes = grn.job(type="p10")(grabbing.leave)

    with pytest.raises(grn.JobExited):
        crashes(scene.place, machine.mib(900), "_exit")

    until(lambda: all_devices()[0].jobs == 0, 2)
    left = machine.mib(100) * MIB
    until(lambda: all_devices()[0].used_bytes < left, 2, lambda: f"{all_devices()}")


def test_l04_one_measuring_run_and_sixty_four_waiters_all_finish(
    machine: Machine, scene: Scene
) -> None:
    new = grn.job(type="l04")(grabbing.hold)
    gate = scene.close_gate()
    jobs = [new.submit(scene.place, 0, gate) for _ in range(65)]
    scene.await_notes("holds", 1)
    until(lambda: len(waiting()) == 64)

    scene.open_gate()

    assert [job.result(LONG_S) for job in jobs] == [f"{machine.kind}:0"] * 65
