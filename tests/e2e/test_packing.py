"""Several jobs per device, on stand-in GPUs and on host memory alike (R69)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import (
    LONG_S,
    Machine,
    Scene,
    a_machine,
    check_leases,
    learn,
    per_device,
    row_of,
    rows_of,
    running,
    waiting,
)
from tests.waiting import until

pytestmark = pytest.mark.e2e

spread = grn.job(type="known", policy="spread")(grabbing.hold)
pack = grn.job(type="known", policy="pack")(grabbing.hold)


@pytest.fixture(scope="module", params=["nvml", "host"])
def machine(request: pytest.FixtureRequest, home: Path) -> Iterator[Machine]:
    """Two devices, and a type that was learned to need three tenths of one."""
    with a_machine(request.param, home, 1000, 1000) as machine:
        learn(spread, str(home), machine.mib(300))
        yield machine


def test_r09_spread_puts_four_held_jobs_on_both_devices(machine: Machine, scene: Scene) -> None:
    gate = scene.close_gate()

    jobs = [spread.submit(scene.place, machine.mib(300), gate) for _ in range(4)]

    assert per_device(scene.await_notes("holds", 4)) == [2, 2]
    check_leases()
    scene.open_gate()
    assert sorted(job.result(LONG_S)[-1] for job in jobs) == ["0", "0", "1", "1"]


def test_r10_pack_fills_one_device_before_the_next(machine: Machine, scene: Scene) -> None:
    gate = scene.close_gate()

    for _ in range(4):
        pack.submit(scene.place, machine.mib(300), gate)

    assert per_device(scene.await_notes("holds", 4)) == [3, 1]
    check_leases()


def test_r13_each_job_of_one_type_is_placed_by_its_own_policy(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    pack.submit(scene.place, machine.mib(300), gate)
    first = scene.await_notes("holds", 1)[0].device

    packed = pack.submit(scene.place, machine.mib(300), gate)
    scene.await_notes("holds", 2)
    apart = spread.submit(scene.place, machine.mib(300), gate)
    scene.await_notes("holds", 3)

    assert row_of(packed.job_id).device == first
    assert row_of(apart.job_id).device != first


def test_r51_twenty_requests_at_once_get_three_leases_on_each_device(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()

    jobs = [spread.submit(scene.place, machine.mib(300), gate) for _ in range(20)]

    scene.await_notes("holds", 6)
    until(lambda: len(waiting()) == 14)
    assert len(running()) == 6
    check_leases()
    scene.open_gate()
    assert all(job.result(LONG_S) for job in jobs)
    assert most_at_once(scene, "start", "end") == 3


def test_r25_different_new_types_are_measured_together_on_different_devices(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    new = [grn.job(type=f"r25-{name}")(grabbing.hold) for name in "ab"]

    jobs = [job.submit(scene.place, machine.mib(100), gate) for job in new]

    assert per_device(scene.await_notes("holds", 2)) == [1, 1]
    assert all(row_of(job.job_id).measuring for job in jobs)


def test_r26_no_job_joins_a_device_on_which_a_type_is_measured(
    machine: Machine, scene: Scene
) -> None:
    measured, others = scene.close_gate("measured"), scene.close_gate("others")
    new = grn.job(type="r26")(grabbing.hold)
    new.submit(scene.place, machine.mib(10), measured)
    taken = scene.await_notes("holds", 1)[0].device

    for _ in range(8):
        spread.submit(scene.place, machine.mib(300), others)

    scene.await_notes("holds", 4)
    until(lambda: len(waiting()) == 5)
    assert sum(one.device == taken for one in scene.notes("start")) == 1
    scene.open_gate("others")
    until(lambda: len(running()) == 1 and not waiting())
    assert sum(one.device == taken for one in scene.notes("start")) == 1


def test_r105_of_two_first_requests_only_one_is_ever_measured(
    machine: Machine, scene: Scene
) -> None:
    rounds = 50 if machine.kind == "nvml" else 5
    for number in range(rounds):
        place = scene.directory / str(number)
        place.mkdir()
        new = grn.job(type=f"r105-{number}")(grabbing.hold)
        pair = [new.submit(str(place)) for _ in range(2)]
        assert all(job.result(LONG_S) for job in pair)
        words = Scene(place).words()
        assert words == ["start", "holds", "end"] * 2, f"round {number}"


def test_nested_calls_of_one_type_return_from_every_level(
    machine: Machine, scene: Scene
) -> None:
    nest = grn.job(type="nest")(grabbing.nest)

    devices = nest.submit(scene.place, machine.mib(100), 3).result(LONG_S)

    assert len(devices) == 4
    assert scene.words() == ["depth-3", "depth-2", "depth-1", "depth-0"]


def test_a_job_that_submits_gives_back_what_it_does_not_use(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    outer = grn.job(type="outer")(grabbing.call_known)

    job = outer.submit(scene.place, machine.mib(300), gate)

    scene.await_notes("holds", 1)
    assert not row_of(job.job_id).measuring
    for _ in range(4):
        spread.submit(scene.place, machine.mib(300), gate)
    scene.await_notes("holds", 5)
    check_leases()
    scene.open_gate()
    assert job.result(LONG_S) == rows_of("known")[-5].device


def most_at_once(scene: Scene, begin: str, end: str) -> int:
    """The most jobs that one device had between these two words."""
    now: dict[str, int] = {}
    most = 0
    for one in scene.notes(begin, end):
        now[one.device] = now.get(one.device, 0) + (1 if one.word == begin else -1)
        most = max(most, now[one.device])
    return most
