"""F20-F31: whatever becomes of a worker, its jobs end once, and start at most once."""

import ctypes
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.settings import Settings
from tests.cli.scripts import alive
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.waiting import until

pytestmark = pytest.mark.e2e

LOST = {"lost", "killed"}
# After so long the broker says so, and places nothing there.
SILENCE_S = Settings().silence_s
SILENT = "worker silent: it gets no new jobs"
PLACED = re.compile(r" placed .* device=(\S+)")


@pytest.fixture(scope="module", autouse=True)
def measured(system: System) -> None:
    """Jobs of a type that was never measured would run one after the other."""
    system.load(1, seconds=(0.0,)).wait()


@contextmanager
def all_end(system: System, *also: str) -> Iterator[None]:
    """In the end nothing is amiss; what was not lost has succeeded, and started once."""
    yield
    system.settle()
    system.wait_back()
    assert system.assert_clean(also).keys() <= {"succeeded", *LOST}
    assert max(system.checker().starts().values()) == 1


def lost(system: System) -> int:
    outcomes = system.checker().outcomes()
    return outcomes["lost"] + outcomes["killed"]


def killed_at(system: System, place: str, count: int = 8) -> int:
    """Let a worker die at a failpoint while jobs come and go; give how many were lost."""
    before = lost(system)
    with all_end(system, *LOST):
        system.arm(place, "kill")
        system.load(count)
        system.until_fired(place)
    return lost(system) - before


def test_f20_a_job_received_but_not_begun_is_placed_again(system: System) -> None:
    assert killed_at(system, "worker.assigned") == 0


def test_f21_a_job_that_may_have_begun_is_lost_and_never_started_again(system: System) -> None:
    assert killed_at(system, "worker.started-written") >= 1


def test_f21_a_job_that_asked_for_it_is_tried_again(system: System) -> None:
    before = lost(system)
    system.arm("worker.fed", "kill")

    load = system.load(4, retries=1)
    system.until_fired("worker.fed")

    system.settle()
    system.wait_back()
    system.assert_clean(LOST)
    assert lost(system) == before
    assert load.count("told") == 4


def test_f22_the_processes_of_a_killed_worker_end_with_it(system: System) -> None:
    with all_end(system, *LOST):
        load = system.load(4, seconds=(pick(2.0, 10.0),))
        running = system.until_running(4)
        victim = system.worker_pids()[0]
        theirs = [pid for pid in running.values() if victim in ancestry(pid)]
        assert theirs

        system.kill(victim)

        until(lambda: not any(map(alive, theirs)), 2)
    ends = [one["outcome"] for one in load.facts("told")]
    assert sum(word in LOST for word in ends) == len(theirs)
    until(lambda: all(row.leased_bytes == 0 for row in system.devices()), 5)


def test_f23_a_result_written_but_not_sent_is_delivered_by_the_next_worker(
    system: System,
) -> None:
    assert killed_at(system, "worker.finished-written", 1) == 0


def test_f24_a_worker_that_stands_still_gets_nothing_new_and_goes_on_later(
    system: System,
) -> None:
    before, gate = lost(system), system.home / "gate-24"
    paused_s = pick(SILENCE_S + 1, 20.0)

    with all_end(system, *LOST):
        system.load(4, gate=str(gate))
        running = system.until_running(4)
        resumed_at = time.monotonic() + paused_s
        with system.paused(system.worker_pids()[0]):
            logged = len(system.log())
            until(lambda: SILENT in system.log()[logged:], SILENCE_S + 3, system.log)
            logged += system.log()[logged:].index(SILENT)
            system.load(8).wait()
            time.sleep(max(0.0, resumed_at - time.monotonic()))
            placed = PLACED.findall(system.log()[logged:])
            assert system.running() == running
        assert placed == ["host:1"] * 8
        gate.touch()

    assert {job: pid for job, pid in finished(system).items() if job in running} == running
    assert lost(system) == before


def finished(system: System) -> dict[str, int]:
    """The process in which each job that is done was done."""
    lines = system.ledger.lines()
    return {job_id: int(pid) for what, job_id, _, pid in lines if what == "finish"}


def test_f25_a_second_worker_for_the_same_device_waits_for_the_first(system: System) -> None:
    gate = system.home / "gate-25"

    with all_end(system, *LOST):
        system.load(4, gate=str(gate))
        running = system.until_running(4)
        first = system.worker_pids()[0]
        with system.paused(first):
            other = a_second_worker(first)
            waits = Path(system.home / "second.log")
            try:
                until(lambda: "waiting for its end" in waits.read_text(), 10, waits.read_text)
                assert first in system.worker_pids()
                assert other.pid not in system.worker_pids()
                assert system.running() == running
            finally:
                other.kill()
                other.wait()
        gate.touch()


def a_second_worker(first: int) -> "subprocess.Popen[bytes]":
    """Start what the first was started as, as a child of ours."""
    words = Path(f"/proc/{first}/cmdline").read_text().split("\0")[:-1]
    words[words.index("--parent") + 1] = str(os.getpid())
    home = Path(os.environ["XDG_STATE_HOME"]).parent
    with open(home / "second.log", "wb") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def hog(seconds: int) -> int:
    """Let nothing else in this process run: a call into C that keeps the interpreter."""
    ctypes.PyDLL(None).sleep(seconds)
    return seconds


def test_f26_a_job_that_hogs_its_interpreter_is_no_dead_worker(system: System) -> None:
    seconds = pick(6, 20)
    workers, before = system.worker_pids(), len(system.log())

    with all_end(system, *LOST):
        future = system.direct.submit(hog, seconds, value=seconds)
        until(lambda: system.running(), 10)
        beside = system.load(4)
        beside.wait()
        assert not future.done()
        assert system.direct.end(future) == seconds

    assert system.worker_pids() == workers
    assert "worker silent" not in system.log()[before:]


def test_f27_broker_and_worker_killed_at_once_end_as_one_after_the_other(
    system: System,
) -> None:
    with all_end(system, *LOST):
        load = system.load(4, seconds=(2.0,))
        running = system.until_running(4)
        broker, victim = system.broker_pid(), system.worker_pids()[0]
        theirs = [pid for pid in running.values() if victim in ancestry(pid)]

        for pid in (broker, victim):
            os.kill(pid, 9)

        until(lambda: not any(map(alive, theirs)), 2)
    ends = [one["outcome"] for one in load.facts("told")]
    assert sum(word in LOST for word in ends) == len(theirs)


def _succeeded(system: System) -> int:
    return system.log().count("outcome=succeeded")


def test_f29_a_worker_that_keeps_dying_does_no_harm(system: System) -> None:
    kills, seconds = pick((8, 10.0), (50, 60.0))
    count = 6 * kills

    with all_end(system, *LOST):
        load = system.load(count, seconds=(0.0, 0.1), pause_s=seconds / count)
        for _ in range(kills):
            until(system.worker_pids, 10)
            # Three deaths without a success between them would be blamed on the type.
            before = _succeeded(system)
            until(lambda before=before: _succeeded(system) > before or load.ended, 10)  # type: ignore[misc]
            system.kill(system.worker_pids()[-1])
            time.sleep(seconds / kills / 2)

    assert system.checker().outcomes()["succeeded"] > count / 2


def test_f30_a_result_that_cannot_be_written_is_handed_over_all_the_same(
    system: System,
) -> None:
    before, gate = lost(system), system.home / "gate-30"

    with all_end(system, *LOST):
        system.load(1, gate=str(gate))
        system.until_running(1)
        system.arm("worker.spool-write", "errno ENOSPC")
        gate.touch()
        system.until_fired("worker.spool-write")

    assert "cannot write the spool" in system.log()
    assert lost(system) == before


def test_f30_a_job_whose_start_cannot_be_written_is_placed_elsewhere(system: System) -> None:
    before = lost(system)
    system.arm("worker.spool-write", "errno ENOSPC")

    with all_end(system, *LOST):
        system.load(8)
        system.until_fired("worker.spool-write")

    assert "worker declined jobs" in system.log()
    assert lost(system) == before


def ancestry(pid: int) -> list[int]:
    """All processes above one."""
    found = []
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        found.append(pid)
    return found
