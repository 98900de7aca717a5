"""A worker and its jobs outlive their broker, and the next worker answers for the last."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.payload import load_value
from grn_zmq.records import AttemptId
from tests.builders import an_id
from tests.waiting import until
from tests.workers.acting import held
from tests.workers.stage import (
    RealWorker,
    ScriptedBroker,
    lives,
    read_when_there,
    spool_files,
)

pytestmark = pytest.mark.e2e


@pytest.fixture
def broker(home: Path) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(epoch=1)
    yield broker
    broker.close()


@pytest.fixture
def worker(home: Path, tmp_path: Path) -> Iterator[RealWorker]:
    worker = RealWorker(tmp_path)
    yield worker
    worker.end()
    for path in spool_files():
        path.unlink()


def wait_for(path: str) -> str:
    """A job that runs until a file is there."""
    Path(path + ".pid").write_text(str(os.getpid()))
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"


def ignore_term(path: str) -> None:
    """A job that ignores TERM, with a daemon of its own that does so too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path + ".daemon").write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    Path(path + ".pid").write_text(str(os.getpid()))
    time.sleep(1000)


def test_jobs_outlive_the_broker_and_their_results_are_repeated_until_recorded(
    home: Path, worker: RealWorker, tmp_path: Path
) -> None:
    broker = ScriptedBroker(epoch=1)
    assert broker.welcome().inventory == ()
    broker.give(1, wait_for, str(tmp_path / "go"))
    read_when_there(tmp_path / "go.pid")

    broker.close()
    broker = ScriptedBroker(epoch=2)
    greet = broker.next(wire.Greet)
    assert (greet.inventory, greet.greeting) == ((held(1),), 2)
    broker.welcome(greet)
    assert broker.next(wire.Started).runs[0].job_id == an_id(1)
    (tmp_path / "go").write_text("")
    first = broker.result()
    assert load_value(first.payload) == "done"

    broker.close()
    broker = ScriptedBroker(epoch=3)
    assert broker.welcome().inventory == (held(1, "finished"),)
    assert broker.result() == first
    assert broker.result() == first  # until it is recorded
    broker.recorded(first)
    until(lambda: not broker.within(wire.Finished, 0.1))
    broker.send(wire.Refused("greet-first", "", ()))
    assert broker.next(wire.Greet).inventory == ()
    broker.close()


def test_an_assignment_from_before_the_last_greeting_is_never_started(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    first = broker.welcome()
    broker.send(wire.Refused("greet-first", "", ()))
    second = broker.next(wire.Greet)
    assert second.greeting == first.greeting + 1

    broker.give(1, wait_for, str(tmp_path / "go"))  # sent before the answer
    broker.welcome(first)  # an answer to the wrong one
    broker.give(2, wait_for, str(tmp_path / "go"))
    broker.welcome(second)
    (tmp_path / "go").write_text("")
    broker.give(3, wait_for, str(tmp_path / "go"))

    assert broker.result().job_id == an_id(3)
    assert not [one for one in broker.heard if isinstance(one, wire.Started)][1:]


def test_what_a_killed_worker_had_only_received_it_never_had(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    worker.order("worker.assigned", "kill")
    broker.give(1, wait_for, str(tmp_path / "go"))

    worker.again()

    assert broker.next(wire.Greet).inventory == ()
    assert not (tmp_path / "go.pid").exists()


def test_what_a_killed_worker_had_written_down_may_have_run(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    worker.order("worker.started-written", "kill")
    broker.give(1, wait_for, str(tmp_path / "go"))
    worker.again()

    assert broker.next(wire.Greet).inventory == (held(1, "interrupted"),)

    worker.kill()
    worker.again()  # until somebody has taken note of it
    assert broker.welcome().inventory == (held(1, "interrupted"),)
    broker.send(wire.Recorded(broker.epoch, (AttemptId(an_id(1), 1),)))
    broker.send(wire.Refused("greet-first", "", ()))
    assert broker.next(wire.Greet).inventory == ()


@pytest.mark.parametrize("failpoint", ["worker.finished-written", "worker.finished-sent"])
@pytest.mark.parametrize("detached", [False, True])
def test_a_result_that_was_written_down_is_handed_over_by_the_next_worker(
    broker: ScriptedBroker, worker: RealWorker, failpoint: str, detached: bool
) -> None:
    broker.welcome()
    worker.order(failpoint, "kill")
    broker.give(1, len, "four", detached=detached)
    worker.again()

    while (greet := broker.next(wire.Greet)).greeting != 1 or not greet.inventory:
        pass
    assert greet.inventory == (held(1, "finished"),)
    broker.welcome(greet)
    assert load_value(broker.result().payload) == 4


def test_the_processes_of_a_killed_worker_are_dead_before_the_next_one_greets(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    broker.give(1, ignore_term, str(tmp_path / "job"))
    pids = [int(read_when_there(tmp_path / f"job.{one}")) for one in ("pid", "daemon")]
    worker.kill()

    worker.again()

    assert broker.next(wire.Greet).inventory == (held(1, "interrupted"),)
    assert not any(map(lives, pids))


def test_a_second_worker_of_a_device_waits_for_the_first(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    first = broker.welcome()
    worker.process.send_signal(signal.SIGSTOP)
    second = RealWorker(tmp_path)
    try:
        assert broker.within(wire.Greet, 1.0) is None

        worker.kill()

        assert broker.next(wire.Greet).incarnation != first.incarnation
    finally:
        second.end()


def test_a_job_that_ignores_term_is_gone_soon_after_its_limit_with_all_it_started(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    broker.give(1, ignore_term, str(tmp_path / "job"), time_limit_s=1.0, grace_s=0.5)
    broker.next(wire.Started)
    began = time.monotonic()
    pids = [int(read_when_there(tmp_path / f"job.{one}")) for one in ("pid", "daemon")]

    result = broker.result()

    assert time.monotonic() - began < 1.0 + 0.5 + 1.0
    assert (result.outcome, result.error_type) == ("timed-out", "TimeLimitExceeded")
    assert result.error_text == "it ran longer than its time limit of 1 s"
    assert result.signal == signal.SIGKILL
    assert not any(map(lives, pids))


def test_a_worker_that_is_told_to_leave_hands_over_and_goes_for_good(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    broker.give(1, wait_for, str(tmp_path / "go"), grace_s=0.5)
    read_when_there(tmp_path / "go.pid")

    broker.send(wire.Leave())
    broker.next(wire.Leaving)
    broker.give(2, wait_for, str(tmp_path / "go"))
    assert broker.next(wire.Declined).attempts == (AttemptId(an_id(2), 1),)
    result = broker.result()
    broker.recorded(result)

    assert (result.outcome, result.error_text) == ("lost", "its worker was stopped")
    assert worker.wait() == 3


def test_a_worker_that_ends_without_a_broker_leaves_its_results_to_the_next(
    home: Path, worker: RealWorker, tmp_path: Path
) -> None:
    broker = ScriptedBroker(epoch=1)
    broker.welcome()
    broker.give(1, wait_for, str(tmp_path / "go"), grace_s=0.5)
    read_when_there(tmp_path / "go.pid")
    broker.close()

    worker.process.terminate()
    assert worker.wait() == 0
    broker = ScriptedBroker(epoch=2)
    worker.again()

    assert broker.welcome().inventory == (held(1, "finished"),)
    assert broker.result().outcome == "lost"
    broker.close()


def test_without_a_spool_nothing_is_started_until_it_can_be_written_again(
    broker: ScriptedBroker, worker: RealWorker
) -> None:
    broker.welcome()
    broker.next(wire.Report)
    worker.order("worker.spool-write", "errno ENOSPC")
    broker.give(1, len, "four")

    declined = broker.next(wire.Declined)
    assert declined.attempts == (AttemptId(an_id(1), 1),)
    assert "No space left on device" in declined.why

    broker.next(wire.Report)  # it reports again: it can be given jobs
    broker.give(2, len, "four")
    assert broker.result().job_id == an_id(2)


def test_a_result_that_cannot_be_written_is_handed_over_all_the_same(
    broker: ScriptedBroker, worker: RealWorker, tmp_path: Path
) -> None:
    broker.welcome()
    broker.give(1, wait_for, str(tmp_path / "go"))
    read_when_there(tmp_path / "go.pid")
    worker.order("worker.spool-write", "errno EIO")
    (tmp_path / "go").write_text("")

    first = broker.result()
    assert load_value(first.payload) == "done"
    worker.kill()
    worker.again()

    held_now = broker.next(wire.Greet).inventory
    assert held_now in ((held(1, "interrupted"),), (held(1, "finished"),))
