"""F12, F19, F46: a second broker, an idle worker that dies, a client that leaves at once."""

import time

import pytest

from tests.cli.scripts import run
from tests.faults.harness import System
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e


def test_f12_a_second_broker_is_refused_and_the_first_is_unaffected(system: System) -> None:
    first = system.broker_pid()
    system.load(8)

    beside = run("grn-broker")
    other = system.home / "other"
    other.mkdir(mode=0o700)
    # Found under another directory, but with the same state.
    elsewhere = run("grn-broker", environment={"XDG_RUNTIME_DIR": str(other)})

    system.settle()
    for second in (beside, elsewhere):
        assert second.returncode == 1
        assert len(second.stderr.splitlines()) == 1
    assert f"already running (pid {first})".encode() in beside.stderr
    assert b"another broker keeps its jobs" in elsewhere.stderr
    assert system.broker_pid() == first
    assert system.assert_clean() == {"succeeded": 8}


def test_f19_the_death_of_an_idle_worker_is_noticed_and_nothing_is_sent_to_it(
    system: System,
) -> None:
    before = system.checker().outcomes()["succeeded"]
    victim = system.worker_pids()[0]

    system.kill(victim)

    killed_at = time.monotonic()
    until(lambda: victim not in system.worker_pids(), 1)
    assert time.monotonic() - killed_at < PATIENCE
    system.load(8)
    system.settle()
    system.wait_back()
    assert system.assert_clean() == {"succeeded": before + 8}


def test_f46_jobs_run_whose_client_left_as_soon_as_they_were_accepted(system: System) -> None:
    before = system.checker().outcomes()["succeeded"]

    load = system.load(4, leave=True)
    load.wait()

    assert load.count("accepted") == 4
    system.settle()
    assert system.assert_clean() == {"succeeded": before + 4}
