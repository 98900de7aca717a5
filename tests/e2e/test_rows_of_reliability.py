"""Rows of the ancestors about what survives what: R34, R72, R74, R99, G36 to G52, P33, P36."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import Running, alive, any_alive, run
from tests.faults import misdeeds
from tests.faults.harness import System
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

GRACE_S = 0.5
# One device, so that a job can fill it.
DEVICES = ("--devices", "host:1x400MiB", "--max-jobs", "4")


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(*DEVICES) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_wrong_afterwards(system: System) -> Iterator[None]:
    yield
    system.settle()
    system.assert_clean()


def until_running(system: System, *job_ids: str) -> None:
    until(lambda: set(job_ids) <= system.ledger.pids().keys(), 10, system.log)


def test_r34_the_death_of_a_client_frees_its_device_and_its_type(system: System) -> None:
    program = system.program(
        """
measured = direct.submit(misdeeds.loop, outcome="cancelled", type="r34", grace=0.5)
print(measured.job_id, flush=True)
measured.result()
"""
    )
    program.until_out("\n")
    until_running(system, program.out.strip())
    waiter = system.direct.submit(misdeeds.nothing, type="r34")
    assert not waiter.running()

    program.kill()

    killed_at = time.monotonic()
    assert system.direct.end(waiter) is None
    assert time.monotonic() - killed_at < (2 + GRACE_S) * PATIENCE


def test_r72_a_job_is_ended_at_its_time_limit_and_its_lease_is_free(system: System) -> None:
    system.direct.end(system.direct.submit(misdeeds.nothing, type="r72"))
    began = time.monotonic()
    limited = system.direct.submit(
        misdeeds.loop, outcome="timed-out", type="r72", time_limit=1, grace=GRACE_S
    )

    error = system.direct.end(limited)

    assert isinstance(error, grn.TimeLimitExceeded)
    assert 1 <= time.monotonic() - began < 2 * PATIENCE
    assert [row.leased_bytes for row in system.devices()] == [0]


def test_r74_a_client_that_stands_still_is_noticed_and_its_jobs_go_on(
    system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    program = system.program(
        f"""
waiting = direct.submit(misdeeds.wait_for, {str(gate)!r}, type="r74")
print(waiting.job_id, flush=True)
direct.end(waiting)
print("resumed", flush=True)
"""
    )
    program.until_out("\n")
    until_running(system, program.out.strip())

    with system.paused(program.process.pid):
        until(lambda: "a client stands still" in system.log(), 15, system.log)
        job_id = program.out.strip()
        assert alive(system.ledger.pids()[job_id])
        gate.touch()
        until(lambda: job_id not in system.ledger.pids())

    assert program.ended() == 0, program.said()
    assert program.out.split() == [job_id, "resumed"]


def test_r99_who_waits_while_the_server_dies_is_served_by_the_next(
    system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = system.direct.submit(misdeeds.wait_for, str(gate), type="r99")
    until_running(system, running.job_id)
    waiting = system.direct.submit(misdeeds.give, 7, value=7, type="r99")

    system.kill(system.broker_pid())
    system.wait_back(devices=1)

    gate.touch()
    assert system.direct.end(running) is None
    assert system.direct.end(waiting) == 7


def test_g36_after_a_kill_of_the_whole_server_its_jobs_have_ended(system: System) -> None:
    running = system.direct.submit(misdeeds.loop, outcome="lost", detached=True, type="g36")
    until_running(system, running.job_id)
    pid = system.ledger.pids()[running.job_id]

    system.stop(signal.SIGKILL)

    until(lambda: not alive(pid), 5)
    system.start()
    assert isinstance(system.direct.end(running), grn.JobLost)


def test_g38_pending_jobs_survive_a_kill_of_the_server(system: System) -> None:
    # Its type was never measured, so it has the device to itself.
    running = system.direct.submit(misdeeds.loop, outcome="lost", detached=True, type="g38")
    until_running(system, running.job_id)
    pending = [
        system.direct.submit(misdeeds.give, n, value=n, detached=True, type="g38")
        for n in range(3)
    ]

    system.stop(signal.SIGKILL)
    system.start()

    assert [system.direct.end(one) for one in pending] == [0, 1, 2]
    assert isinstance(system.direct.end(running), grn.JobLost)


def test_g39_after_a_crash_each_job_is_accounted_for_once(system: System) -> None:
    done = system.direct.submit(misdeeds.give, 1, value=1, detached=True, type="g39 done")
    assert system.direct.end(done) == 1
    running = system.direct.submit(misdeeds.loop, outcome="lost", detached=True, type="g39")
    until_running(system, running.job_id)
    queued = system.direct.submit(misdeeds.give, 2, value=2, detached=True, type="g39")

    system.stop(signal.SIGKILL)
    system.start()

    assert isinstance(system.direct.end(running), grn.JobLost)
    assert system.direct.end(queued) == 2
    listed = json.loads(run("grn", "ps", "--all", "--json").stdout)
    states = [(row["job_id"], row["state"]) for row in listed]
    for job, state in ((done, "succeeded"), (running, "lost"), (queued, "succeeded")):
        assert [one for one in states if one[0] == job.job_id] == [(job.job_id, state)]


@pytest.mark.parametrize("retries", [0, 1])
def test_g49_the_jobs_of_a_dead_worker_are_lost_or_run_again_if_they_may(
    retries: int, system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    system.wait_back(devices=1)
    running = system.direct.submit(
        misdeeds.wait_for,
        str(gate),
        outcome="succeeded" if retries else "lost",
        type=f"g49 {retries}",
        retries=retries,
    )
    until_running(system, running.job_id)

    system.kill(system.worker_pids()[0])

    killed_at = time.monotonic()
    if retries:
        until(lambda: system.checker().starts()[running.job_id] == 2, 15, system.log)
        gate.touch()
        assert system.direct.end(running) is None
    else:
        assert isinstance(system.direct.end(running), grn.JobLost)
        assert time.monotonic() - killed_at < 10 * PATIENCE
        gate.touch()


def test_g52_cancelling_a_command_ends_all_of_it_and_frees_its_share(
    system: System, tmp_path: Path
) -> None:
    system.wait_back(devices=1)
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! > {pids}; setsid sleep 601 & echo $! >> {pids}; wait"
    with Running("grn", "run", "--", "sh", "-c", script) as command:
        until(lambda: pids.exists() and pids.read_text().count("\n") == 2, 10, command.said)
        below = [int(line) for line in pids.read_text().split()]
        assert len(any_alive(below)) == 2

        command.interrupt()

        assert command.ended() == 128 + signal.SIGINT, command.said()
    assert not any_alive(below)
    until(lambda: [row.leased_bytes for row in system.devices()] == [0], 2)


def test_p33_a_time_limit_holds_though_the_broker_stands_still(system: System) -> None:
    limited = system.direct.submit(
        misdeeds.loop, outcome="timed-out", type="p33", time_limit=1, grace=GRACE_S
    )
    until_running(system, limited.job_id)
    pid = system.ledger.pids()[limited.job_id]

    with system.paused(system.broker_pid()):
        until(lambda: not alive(pid), 2 + GRACE_S)

    assert isinstance(system.direct.end(limited), grn.TimeLimitExceeded)


def test_p36_waiting_can_be_bounded_and_given_up_and_blocks_nobody(
    system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = system.direct.submit(misdeeds.wait_for, str(gate), type="p36", memory="390MiB")
    until_running(system, running.job_id)
    bounded = system.direct.submit(
        misdeeds.nothing, outcome="expired", type="p36 too", memory="390MiB", timeout=1
    )
    given_up = system.direct.submit(
        misdeeds.nothing, outcome="cancelled", type="p36 too", memory="390MiB"
    )
    began = time.monotonic()

    assert len(system.jobs() or ()) == 3  # others are answered meanwhile
    assert given_up.cancel()
    system.direct.end(given_up)
    assert time.monotonic() - began < PATIENCE
    error = system.direct.end(bounded)

    assert isinstance(error, grn.WaitTimeout)
    assert isinstance(error, TimeoutError)
    assert time.monotonic() - began < 2 * PATIENCE
    gate.touch()
    assert system.direct.end(running) is None
