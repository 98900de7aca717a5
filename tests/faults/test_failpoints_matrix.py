"""Every failpoint of the product, with a process that dies there and one that stands still.

No job may be tried again here: whatever dies, each must end as it was expected to.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.changes import Batch
from broker.retention import KEEP_RESULT_S
from grn_zmq.futures import Future
from tests.broker.stored import a_job, an_end, write
from tests.faults.direct import outcome_of
from tests.faults.forms import pick
from tests.faults.harness import System, failpoint_names
from tests.faults.load import Load
from tests.waiting import until

pytestmark = pytest.mark.e2e

NAMES = sorted(failpoint_names())
STOPPED_S = pick(0.3, 1.0)
FORGET_S = 3.0
# What kills a worker that has nothing to do kills no job.
AT_A_START = {"worker.spool-open", "worker.swept", "worker.greet", "worker.welcomed"}
# How the only job of a worker ends that dies there: nobody can say of these that they did not
# run, or how they ended. Any other is begun once, and its end is known.
MAY_HAVE_RUN = {"worker.started-written", "worker.fed", "worker.result"}


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """One with a history, of which a bit is forgotten now and then."""
    with System() as made:
        made.stop()
        write(made.state, ended_long_ago())
        made.start()
        yield made


def ended_long_ago() -> Batch:
    """Jobs of which one is due to be forgotten every few seconds from now on."""
    ended_at = time.time() - KEEP_RESULT_S
    times = {number: ended_at + number * FORGET_S for number in range(1, 400)}
    return Batch(
        jobs=[a_job(one, at, parent="", token="", payload=b"") for one, at in times.items()],
        ends=[an_end(one, 1, at, outcome="cancelled", token="") for one, at in times.items()],
    )


def test_there_are_failpoints_on_all_sides() -> None:
    assert len(NAMES) >= 30
    assert {name.partition(".")[0] for name in NAMES} == {
        "broker",
        "journal",
        "worker",
        "client",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_dies_at_any_place_does_no_harm(system: System, name: str) -> None:
    system.arm(name, "exit")

    provoke(system, name, dies=True)
    mixed_load(system)

    assert_whole(system, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_stands_still_at_any_place_does_no_harm(
    system: System, name: str
) -> None:
    system.arm(name, "stop")
    waking = threading.Thread(target=wake, args=(system, name))
    waking.start()

    provoke(system, name, dies=False)
    mixed_load(system)

    waking.join()
    assert_whole(system, name)


def provoke(system: System, name: str, *, dies: bool) -> None:
    """Have done what leads to this place, if a few jobs alone do not."""
    if name.startswith("broker.start."):
        system.kill(system.broker_pid())
    elif name == "worker.leaving":
        system.kill(system.worker_pids()[0], signal.SIGTERM)
        system.until_fired(name)
    elif name in AT_A_START:
        system.kill(system.worker_pids()[0])
        system.until_fired(name)
    elif name.startswith("worker."):
        run_alone(system, name, "lost" if dies and name in MAY_HAVE_RUN else "succeeded")
    elif name.startswith("broker.requeue."):
        give_back_all(system)
    elif name.startswith("client."):
        load = system.load(4, failpoints=str(system.orders))
        assert isinstance(load, Load)
        if dies:
            system.until_fired(name)
            load.process.wait()
            load.killed = True


def run_alone(system: System, name: str, outcome: str) -> None:
    """Have one job, and a worker that fails at this place of its way."""
    direct = system.direct
    if name == "worker.ending":
        direct.end(cancelled(system))
    else:
        one = direct.submit(square, 2, outcome=outcome, value=4, detached=True)
        direct.end(one)
        assert outcome_of(one).outcome == outcome
    system.until_fired(name)


def give_back_all(system: System) -> None:
    """Kill both workers before they have read what they were given: it was never begun."""
    system.load(1).wait()  # of a type that was not measured only one would be placed
    with ExitStack() as standing_still:
        for pid in system.worker_pids():
            standing_still.enter_context(system.paused(pid))
        system.load(4)
        until(lambda: placed(system) == 4, 4, system.log)
        for pid in system.worker_pids():
            system.kill(pid)


def placed(system: System) -> int:
    return sum(row.state == "assigned" for row in system.jobs() or ())


def mixed_load(system: System) -> None:
    """One job waited for, one detached, one that fails, one cancelled: each is begun once."""
    direct = system.direct
    waits = direct.submit(square, 3, value=9)
    detached = direct.submit(square, 4, value=16, detached=True)
    fails = direct.submit(fail, outcome="failed")
    lingers = cancelled(system)
    for future in (waits, detached, fails, lingers):
        direct.end(future)
    starts = system.checker().starts()
    assert [starts[one.job_id] for one in (waits, detached, fails, lingers)] == [1] * 4


def cancelled(system: System) -> Future[Any]:
    """Give a job that has begun and was cancelled then."""
    lingers = system.direct.submit(linger, 20.0, outcome="cancelled")
    until(lambda: lingers.job_id in system.running(), 20, system.log)
    lingers.cancel()
    return lingers


def square(number: int) -> int:
    return number * number


def fail() -> None:
    raise ValueError("as it should")


def linger(seconds: float) -> None:
    time.sleep(seconds)


def wake(system: System, name: str) -> None:
    """Let whoever stopped at this place go on after a while."""
    system.until_fired(name)
    until(lambda: stopped(system), 5)
    time.sleep(STOPPED_S)
    for pid in stopped(system):
        os.kill(pid, signal.SIGCONT)


def stopped(system: System) -> list[int]:
    """The processes of a system that stand still."""
    return [pid for pid in system.processes() if state_of(pid) == "T"]


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def assert_whole(system: System, name: str) -> None:
    """This place was reached, and all is well."""
    try:
        system.until_fired(name, 10)
    finally:
        (system.orders / name).unlink(missing_ok=True)
    system.settle()
    system.wait_back()
    system.assert_clean()
