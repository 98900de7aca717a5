"""Whole process trees: measured together, ended together, and what survives whose death."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.listed import all_devices
from tests.e2e.scene import (
    LONG_S,
    MIB,
    Machine,
    Scene,
    a_machine,
    alive,
    children,
    device,
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
    """Two devices."""
    with a_machine(request.param, home, 1000, 1000) as machine:
        yield machine


def test_r53_the_memory_of_children_and_grandchildren_is_learned(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    job = grn.job(type="r53")(grabbing.family)
    own, child, grandchild = sizes = [machine.mib(size) for size in (100, 200, 300)]

    future = job.submit(scene.place, own, child, grandchild, gate)
    scene.await_notes("holds", 3)
    until(lambda: row_of(future.job_id).used_bytes >= sum(sizes) * MIB)
    scene.open_gate()

    future.result(LONG_S)
    learned = row_of(future.job_id).peak_bytes / MIB
    assert sum(sizes) <= learned < sum(sizes) * 1.25
    if machine.kind == "nvml":
        assert learned == 600


def test_p38_a_job_with_a_multiprocessing_pool_is_counted_whole_and_leaves_nothing(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    job = grn.job(type="p38")(grabbing.team)

    future = job.submit(scene.place, machine.mib(200), 3, gate)
    members = [one.pid for one in scene.await_notes("holds", 3, 20)]
    until(lambda: row_of(future.job_id).used_bytes >= 3 * machine.mib(200) * MIB)
    scene.open_gate()

    assert len(set(future.result(LONG_S))) == 1
    assert len(set(members)) == 3
    until(lambda: not any(map(alive, members)), 2)
    assert row_of(future.job_id).peak_bytes >= 3 * machine.mib(200) * MIB


def test_p13_killing_a_client_ends_its_jobs_but_not_what_it_spawned(
    machine: Machine, scene: Scene
) -> None:
    known = grn.job(type="p13")(grabbing.hold)
    known(scene.place, machine.mib(200))
    gate = scene.close_gate()
    client = scene.client(
        "job = grn.job(type='p13')(g.hold); "
        f"print(job.spawn(place, {machine.mib(200)}, {gate!r}), flush=True); "
        f"job(place, {machine.mib(200)}, {gate!r})"
    )
    assert client.stdout is not None
    spawned = client.stdout.readline().strip()
    _, *holding = scene.await_notes("holds", 3)
    attached = next(one for one in holding if one.job_id != spawned)
    until(lambda: len(running()) == 2)

    client.kill()

    until(lambda: row_of(attached.job_id).state == "cancelled", 2)
    until(lambda: not alive(attached.pid), 2)
    assert sum(row.jobs for row in all_devices()) == 1
    assert row_of(spawned).state == "running"
    scene.open_gate()
    assert grn.attach(spawned).result(LONG_S).startswith(machine.kind)


def test_p34_killing_a_worker_loses_its_running_job_and_no_queued_one(
    machine: Machine, scene: Scene
) -> None:
    known = grn.job(type="p34")(grabbing.hold)
    learn(known, scene.place, machine.mib(600), runs=2)
    first, second = scene.close_gate("first"), scene.close_gate("second")
    gates = [first, first, *[second] * 4]
    jobs = [known.submit(scene.place, machine.mib(600), gate) for gate in gates]
    holding = scene.await_notes("holds", 4)[2:]
    until(lambda: len(waiting()) == 4)
    lost, kept = sorted(holding, key=lambda one: one.device)
    worker = device(0).worker_pid
    below = children(worker)

    os.kill(worker, signal.SIGKILL)

    failed = next(job for job in jobs if job.job_id == lost.job_id)
    error = failed.exception(LONG_S)
    assert isinstance(error, grn.JobLost)
    assert "was not run again" in str(error)
    until(lambda: not any(map(alive, below)), 2)
    assert lost.pid in below
    # The new worker takes over what waits, while the other device is still taken.
    until(lambda: len(scene.notes("holds")) == 5, 10)
    assert scene.notes("holds")[-1].device == lost.device
    assert alive(kept.pid)
    assert device(0).worker_pid != worker
    scene.open_gate("first")
    scene.open_gate("second")
    assert all(job.result(LONG_S) for job in jobs if job is not failed)
    assert [row.state for row in rows_of("p34")].count("lost") == 1
    assert len(scene.notes("start")) == 2 + len(jobs)


def test_p24_a_hundred_jobs_leave_no_zombie_below_any_worker(
    machine: Machine, scene: Scene
) -> None:
    # A new process for every job, and processes that are used again: once each.
    job = grn.job(type="p24", reuse=machine.kind == "host")(grabbing.hold)

    assert len(list(job.map([scene.place] * 100))) == 100

    until(lambda: not any(zombies_below(row.worker_pid) for row in all_devices()), 2)


def test_a_job_process_that_holds_memory_is_not_used_again(
    machine: Machine, scene: Scene
) -> None:
    keep = grn.job(type="keeps")(grabbing.keep)

    first = keep(scene.place, machine.mib(300))
    assert not alive(first)
    second = keep(scene.place, machine.mib(300))

    assert first != second
    assert not alive(second)


def test_a_job_process_that_holds_nothing_is_used_again(machine: Machine, scene: Scene) -> None:
    keep = grn.job(type="keeps-nothing")(grabbing.keep)

    pids = {keep(scene.place, 0) for _ in range(10)}

    assert len(pids) <= len(all_devices())
    assert all(map(alive, pids))


def test_idle_job_processes_are_ended_when_their_room_is_needed(
    machine: Machine, scene: Scene
) -> None:
    # On a GPU an idle process holds nothing, so it is never in the way and lives on.
    kept_mib = 25 if machine.kind == "host" else 0
    large = grn.job(type="large", policy="pack")(grabbing.hold)
    keep = grn.job(type="idle", policy="spread")(grabbing.keep)
    learn(large, scene.place, machine.mib(850), runs=2)
    keep(scene.place, 0)
    gate = scene.close_gate()
    keeping = [keep.submit(scene.place, kept_mib, gate) for _ in range(6)]
    scene.await_notes("keeps", 7)
    scene.open_gate()
    pids = {job.result(LONG_S) for job in keeping}
    until(lambda: all(row.idle_bytes >= 2 * kept_mib * MIB for row in all_devices()))
    assert all(map(alive, pids))

    assert large.submit(scene.place, machine.mib(850)).result(LONG_S)

    assert all(map(alive, pids)) == (machine.kind == "nvml")


def zombies_below(pid: int) -> list[int]:
    return [child for child, state in children(pid).items() if state == "Z"]
