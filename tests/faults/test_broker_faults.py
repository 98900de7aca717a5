"""F01-F08, F10, F11, F13, F14, F18: whatever becomes of the broker, no job notices."""

import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from resource import RLIMIT_NOFILE, prlimit

import pytest

from tests.cli.scripts import alive
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

# A broker that was killed serves again after so long.
RECOVERY_S = 3.0


@pytest.fixture(scope="module", autouse=True)
def measured(system: System) -> None:
    """Jobs of a type that was never measured would run one after the other."""
    system.load(1, seconds=(0.0,)).wait()


@contextmanager
def all_succeed(system: System, count: int) -> Iterator[None]:
    """So many jobs more have succeeded in the end, each started once, and nothing is amiss."""
    before = system.checker().outcomes()["succeeded"]
    yield
    system.settle()
    assert system.assert_clean() == {"succeeded": before + count}
    assert set(system.checker().starts().values()) == {1}


def killed_at(system: System, place: str) -> None:
    """Let a broker die at a failpoint while eight jobs come and go."""
    first = system.broker_pid()
    with all_succeed(system, 8):
        system.arm(place, "kill")
        system.load(8)
        system.until_fired(place)
        until(lambda: not alive(first), 5)


def test_f01_a_submission_that_was_not_kept_is_repeated(system: System) -> None:
    killed_at(system, "broker.submit.before-commit")


def test_f02_a_submission_that_was_kept_but_not_answered_is_one_job(system: System) -> None:
    killed_at(system, "broker.submit.after-commit")


def test_f03_a_job_placed_but_not_sent_is_placed_again(system: System) -> None:
    killed_at(system, "broker.lease.after-commit")


def test_f04_an_assignment_of_the_broker_before_is_not_obeyed(system: System) -> None:
    first = system.broker_pid()

    with all_succeed(system, 4):
        with ExitStack() as standing_still:
            for worker in system.worker_pids():
                standing_still.enter_context(system.paused(worker))
            system.load(4)
            until(lambda: any(row.state == "assigned" for row in system.jobs() or ()), 4)
            system.kill(first)
            until(lambda: system.broker_pid() != first, 5)


def test_f05_jobs_that_run_outlive_their_broker(system: System) -> None:
    with all_succeed(system, 4):
        system.load(4, seconds=(pick(3.0, 10.0),))
        before = system.until_running(4)

        system.kill(system.broker_pid())
        system.wait_back()

        assert system.running() == before


def test_f06_a_result_that_was_not_kept_is_handed_over_again(system: System) -> None:
    killed_at(system, "broker.end.before-commit")


def test_f07_a_result_that_was_kept_but_not_answered_stays_as_it_is(system: System) -> None:
    killed_at(system, "broker.end.after-commit")


def test_f08_a_broker_killed_over_and_over_loses_nothing(system: System) -> None:
    seconds = pick(30.0, 300.0)
    count = int(4 * seconds)
    chance = random.Random(8)
    longest_s = 0.0

    with all_succeed(system, count):
        until_s = time.monotonic() + seconds
        system.load(count, seconds=(0.0, 0.2, 1.0), pause_s=seconds / count)
        while time.monotonic() < until_s:
            time.sleep(chance.uniform(1.0, 3.0))
            system.kill(system.broker_pid())
            killed_at_s = time.monotonic()
            system.wait_back(RECOVERY_S)
            longest_s = max(longest_s, time.monotonic() - killed_at_s)

    print(f"longest recovery {longest_s:.2f} s")


def test_f10_a_broker_that_stands_still_ends_no_job(system: System) -> None:
    seconds = pick(3.0, 30.0)

    with all_succeed(system, 40):
        load = system.load(40, seconds=(0.0, 0.5), pause_s=0.05)
        load.until("accepted", 4)
        with system.paused(system.broker_pid()):
            time.sleep(seconds)


def test_f11_a_broker_out_of_descriptors_loses_nothing() -> None:
    with System() as system, ExitStack() as knocking, all_succeed(system, 20):
        assert system.server is not None
        prlimit(system.server.pid, RLIMIT_NOFILE, (64, 64))
        first = system.broker_pid()
        system.kill(first)
        until(lambda: system.broker_pid() != first, 5)
        system.wait_back()
        load = system.load(20, seconds=(0.0, 0.5), pause_s=0.1)
        load.until("accepted", 4)

        for _ in range(100):
            one = knocking.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            one.connect_ex(str(system.places.clients_socket))

        load.until("accepted", 20)
        assert "nobody else is let in" in system.log() or "status=-6" in system.log()


def test_f13_sockets_that_were_unlinked_are_made_anew(system: System) -> None:
    first = system.broker_pid()

    with all_succeed(system, 4):
        system.places.clients_socket.unlink()
        system.places.workers_socket.unlink()
        until(system.places.clients_socket.exists, 10)
        until(system.places.workers_socket.exists, 10)
        system.load(4)

    assert system.broker_pid() == first


def test_f14_a_removed_runtime_directory_is_made_anew(system: System) -> None:
    first = system.broker_pid()

    with all_succeed(system, 8):
        system.load(4, seconds=(1.0,))
        before = system.until_running(4)
        shutil.rmtree(os.environ["XDG_RUNTIME_DIR"])
        assert system.running() == before
        assert system.broker_pid() == first
        system.load(4)


def test_f14_a_broker_killed_without_its_runtime_directory_comes_back(system: System) -> None:
    first = system.broker_pid()

    with all_succeed(system, 8):
        system.load(4, seconds=(1.0,))
        before = system.until_running(4)
        shutil.rmtree(os.environ["XDG_RUNTIME_DIR"])
        system.kill(first)
        system.wait_back()
        assert system.running().items() <= before.items()
        os.mkdir(os.environ["XDG_RUNTIME_DIR"], 0o700)  # the next login
        system.load(4)


def test_f18_a_broker_told_to_end_does_so_at_once_and_jobs_go_on(system: System) -> None:
    first = system.broker_pid()

    with all_succeed(system, 40):
        load = system.load(40, seconds=(0.0, 0.5, 2.0), pause_s=0.05)
        load.until("accepted", 8)
        before = system.until_running(1)
        told_at = time.monotonic()
        system.kill(first, signal.SIGTERM)
        until(lambda: not alive(first), 2)
        took_s = time.monotonic() - told_at
        assert before.keys() <= {*system.running(), *finished(system)}

    assert took_s < 2 * PATIENCE
    assert "which=broker status=75" in system.log()


def finished(system: System) -> set[str]:
    return {job_id for what, job_id, *_ in system.ledger.lines() if what == "finish"}
