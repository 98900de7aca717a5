"""`grn start` keeps broker and workers alive, and ends them for good when it is told to."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S, Backoff
from grn_zmq.cli.hosting.children import Child
from grn_zmq.cli.hosting.supervisor import LEAVE_S, Supervisor
from grn_zmq.cli.listing import all_devices
from grn_zmq.discovery import BrokerLock, SupervisorLock, find_address, is_locked, supervisor
from grn_zmq.errors import BrokerRunning
from grn_zmq.lifeline import ending_signals
from grn_zmq.paths import Places, find_places, state_file
from tests.cli.scripts import TRACEBACK, Running, alive, any_alive, descendants, run, started
from tests.waiting import PATIENCE, until

e2e = pytest.mark.e2e
pytestmark = pytest.mark.usefixtures("home")

HOST = ("--devices", "host:2x500MiB")


@pytest.fixture
def places() -> Places:
    return find_places(os.environ)


def broker_pid(places: Places) -> int:
    address = find_address(places)
    assert address is not None
    return address.pid


def another_broker(places: Places, before: int) -> bool:
    address = find_address(places)
    return address is not None and address.pid != before


def a_sleeping_job(mark: Path, trap: str = "") -> Running:
    """A job of a standing broker that says its pid and sleeps."""
    body = f"{trap} echo $$ > {mark}; while :; do sleep 0.1; done"
    running = Running("grn-run", f"sh -c '{body}'")
    until(lambda: mark.exists() and mark.read_text().strip(), 20, running.said)
    return running


def kill_a_worker(server: Running) -> None:
    """Kill the worker of the first device, once both are there; it is noticed then."""
    until(lambda: len(all_devices()) == 2, 10, server.said)
    died = server.err.count("a worker died")
    os.kill(all_devices()[0].worker_pid, signal.SIGKILL)
    until(lambda: server.err.count("a worker died") > died, 10, server.said)


def test_pauses_double_while_a_process_dies_young_and_begin_anew_after_a_steady_life() -> None:
    backoff = Backoff()

    young = [backoff.pause_s(0.0) for _ in range(7)]
    steady = backoff.pause_s(STEADY_S)

    assert young[:4] == [0.1, 0.2, 0.4, 0.8]
    assert young[-2:] == [LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert steady == FIRST_PAUSE_S


def test_a_supervisor_counts_as_a_broker_that_comes_back(places: Places) -> None:
    places.make()

    with contextlib.closing(SupervisorLock(places)):
        held = (is_locked(places), supervisor(places), find_address(places))
        with pytest.raises(BrokerRunning) as caught:
            SupervisorLock(places)
        with contextlib.closing(BrokerLock(places)):
            pass  # its own broker is not kept out

    assert held == (True, os.getpid(), None)
    assert caught.value.pid == os.getpid()
    assert not is_locked(places)


@pytest.fixture
def a_supervisor() -> Iterator[Supervisor]:
    """One that has started nothing; its hold on our signals ends with it."""
    before = {one: signal.getsignal(one) for one in ending_signals()}
    made = Supervisor((), (), {}, debug=False)
    yield made
    signal.set_wakeup_fd(-1)
    for signum, handler in before.items():
        signal.signal(signum, handler)


class Dead(Child):
    """A child that has died since it was looked after last."""

    def start_again(self) -> None:
        self.start_at = time.monotonic() + 60


def test_a_child_that_dies_just_after_it_was_looked_after_is_started_again(
    a_supervisor: Supervisor,
) -> None:
    child = a_supervisor._broker = a_supervisor._workers = Dead("broker", ())
    reading, writing = os.pipe()
    threading.Timer(0.5, os.close, (writing,)).start()

    a_supervisor.serve(reading)

    os.close(reading)
    assert child.start_at is not None


@e2e
def test_promise_6_a_broker_that_died_is_back_and_its_jobs_have_gone_on(
    places: Places, tmp_path: Path
) -> None:
    with started(*HOST) as server, a_sleeping_job(tmp_path / "pid") as client:
        job = int((tmp_path / "pid").read_text())
        before = broker_pid(places)
        killed_at = time.monotonic()

        os.kill(before, signal.SIGKILL)

        asked = run("grn", "status")  # while none is there
        assert asked.returncode == 0, asked.stderr
        assert another_broker(places, before)
        assert time.monotonic() - killed_at < 5 * PATIENCE
        until(lambda: b"1 job running" in run("grn", "status").stdout, 10, server.said)
        assert alive(job)
        assert client.process.poll() is None
        assert server.err.count("it is started again") == 1
        client.interrupt()
        assert client.ended() == 130, client.said()
        assert not alive(job)


@e2e
def test_rule_20_sigterm_to_the_broker_alone_is_a_restart(places: Places) -> None:
    with started(*HOST) as server:
        before = broker_pid(places)

        os.kill(before, signal.SIGTERM)

        until(lambda: another_broker(places, before), 10, server.said)
        assert "which=broker status=75" in server.err
        assert run("grn-run", "true").returncode == 0


@e2e
def test_workers_that_lost_their_fosterer_are_followed_by_others(places: Places) -> None:
    with started(*HOST) as server:
        broker = broker_pid(places)
        below = descendants(server.pid)
        fosterer = next(pid for pid in below if pid != broker and descendants(pid))

        os.kill(fosterer, signal.SIGKILL)

        until(lambda: not any_alive([pid for pid in below if pid != broker]), 15, server.said)
        until(lambda: b"2 devices" in run("grn", "status").stdout, 15, server.said)
        assert broker_pid(places) == broker
        assert run("grn-run", "true").returncode == 0


@e2e
def test_the_death_of_the_supervisor_is_the_end_of_all(places: Places, tmp_path: Path) -> None:
    with started(*HOST) as server, a_sleeping_job(tmp_path / "pid") as client:
        below = descendants(server.pid)
        job = int((tmp_path / "pid").read_text())

        os.kill(server.pid, signal.SIGKILL)

        until(lambda: not any_alive([*below, job]), 12, lambda: f"left: {any_alive(below)}")
        client.process.terminate()
        assert client.ended() not in (0, None), client.said()
        assert TRACEBACK not in client.err
    assert not is_locked(places)


@e2e
def test_a_broker_that_refuses_to_come_back_is_tried_again_until_it_does(
    places: Places,
) -> None:
    with started(*HOST) as server:
        state = state_file(os.environ)
        away = state.with_suffix(".away")
        before = broker_pid(places)
        os.kill(server.pid, signal.SIGSTOP)  # it must not be faster than we are
        os.kill(before, signal.SIGKILL)
        state.rename(away)
        os.kill(server.pid, signal.SIGCONT)

        server.until_err("status=1")
        away.rename(state)

        until(lambda: another_broker(places, before), 10, server.said)
        assert run("grn", "status").returncode == 0


@e2e
def test_a_stop_does_not_wait_for_a_worker_that_is_not_there() -> None:
    with started(*HOST) as server:
        while f"pause_s={LONGEST_PAUSE_S}" not in server.err:
            kill_a_worker(server)
        begun = time.monotonic()

        server.process.terminate()

        assert server.ended() == 0, server.said()
        assert time.monotonic() - begun < LEAVE_S, server.said()


@e2e
def test_a_second_ctrl_c_does_not_wait_for_a_deaf_job(tmp_path: Path) -> None:
    with (
        started(*HOST) as server,
        a_sleeping_job(tmp_path / "pid", 'trap "" INT TERM;') as client,
    ):
        everybody = [*descendants(server.pid), int((tmp_path / "pid").read_text())]
        server.interrupt()
        server.until_err(" stopping ")
        begun = time.monotonic()

        server.interrupt()

        assert server.ended(4) == 0, server.said()
        assert time.monotonic() - begun < 4 * PATIENCE
        until(lambda: not any_alive(everybody), 5, lambda: f"left: {any_alive(everybody)}")
        client.process.kill()
        client.ended()
