"""Faults of job processes: F32 to F37, F42, F43. What a job does to itself harms it alone.

F38 to F40 are in test_job_limits.py, F41 is in test_deaf_jobs.py, F44 in test_poison.py.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.cli.scripts import alive
from tests.faults import misdeeds
from tests.faults.direct import outcome_of
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.faults.misdeeds import MIB, Trap
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

GRACE_S = 0.5
TALKED_MIB = pick(200, 1024)
# What may be on its way through the broker while a client is slower than its jobs.
BURST_MIB = 100
# Of what a job prints, the broker has the last lines only.
MOST_SAID = 4096


@pytest.fixture(scope="module")
def workers(system: System) -> list[int]:
    """The workers all of these tests begin with."""
    return system.worker_pids()


@pytest.fixture(autouse=True)
def all_is_well_afterwards(system: System, workers: list[int]) -> Iterator[None]:
    """Whatever a job did, the workers live, nothing is left of it, and others run."""
    yield
    assert system.worker_pids() == workers, system.log()
    assert system.direct.end(system.direct.submit(misdeeds.nothing)) is None
    system.settle()
    system.assert_clean()


def pids_in(path: Path, count: int) -> list[int]:
    until(lambda: path.exists() and path.read_text().count("\n") >= count)
    return [int(line) for line in path.read_text().split()]


def warm(system: System, job_type: str) -> None:
    """Let a process of this type be there already: its start is not the fault's."""
    system.direct.end(system.direct.submit(misdeeds.nothing, type=job_type))


@pytest.mark.parametrize(
    ("body", "args", "outcome", "facts"),
    [
        (misdeeds.leave_at_once, (), "failed", {"exit_status": 3}),
        (misdeeds.leave, (), "failed", {"exit_status": 4}),
        (misdeeds.fail, (), "failed", {}),
        (misdeeds.die, (signal.SIGSEGV,), "killed", {"signal": signal.SIGSEGV}),
        (misdeeds.die, (signal.SIGKILL,), "killed", {"signal": signal.SIGKILL}),
    ],
    ids=["os._exit", "sys.exit", "raise", "SIGSEGV", "SIGKILL"],
)
def test_f32_a_job_that_ends_early_is_told_as_it_was(
    body: Callable[..., Any],
    args: tuple[Any, ...],
    outcome: str,
    facts: dict[str, int],
    system: System,
) -> None:
    warm(system, "f32")
    began = time.monotonic()
    future = system.direct.submit(body, *args, outcome=outcome, type="f32")

    error = system.direct.end(future)

    assert time.monotonic() - began < PATIENCE
    assert outcome_of(future).outcome == outcome
    if body is misdeeds.fail:
        assert isinstance(error, LookupError)
        return
    assert isinstance(error, grn.JobExited | grn.JobKilled)
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.last_lines.strip() in ("leaving now", "dying now")


def test_f33_an_exception_that_cannot_be_pickled_is_told_in_words(system: System) -> None:
    future = system.direct.submit(misdeeds.raise_stuck, outcome="failed")

    error = system.direct.end(future)

    assert isinstance(error, grn.JobFailed)
    assert "Stuck: stuck in here" in str(error)
    assert "in raise_stuck" in error.traceback_text


def test_f33_a_result_that_cannot_be_pickled_fails_the_job(system: System) -> None:
    future = system.direct.submit(misdeeds.give_stuck, outcome="failed")

    error = system.direct.end(future)

    assert isinstance(error, grn.NotPicklable)
    assert "the result['lock']" in str(error)


def test_f34_a_result_that_ends_its_reader_ends_only_that(system: System) -> None:
    program = system.program(
        "direct.end(direct.submit(misdeeds.give_trap, os._exit, 9))", stays=False
    )

    assert program.ended() == 9, program.said()
    beside = system.direct.submit(misdeeds.give, 7, value=7)
    assert system.direct.end(beside) == 7


def test_f34_a_result_that_leaves_while_it_is_opened_is_an_error(system: System) -> None:
    future = system.direct.submit(misdeeds.give_trap, misdeeds.leave)

    error = system.direct.end(future)

    assert isinstance(error, grn.JobFailed)
    assert "cannot be unpickled here" in str(error)


def test_f34_a_result_that_never_ends_being_opened_holds_up_nobody_else(
    system: System,
) -> None:
    program = system.program(
        """
future = direct.submit(misdeeds.give_trap, misdeeds.loop)
try:
    future.result(1)
except TimeoutError:
    print("timed out", flush=True)
beside = direct.submit(misdeeds.give, 7, value=7)
print("beside it:", direct.end(beside), flush=True)
os._exit(0)
""",
        stays=False,
    )

    assert program.ended() == 0, program.said()
    assert program.out.splitlines() == ["timed out", "beside it: 7"]


@pytest.mark.parametrize(
    ("spring", "outcome"),
    [(misdeeds.die_while_opened, "killed"), (misdeeds.allocate_while_opened, "oom")],
    ids=["kills", "allocates"],
)
def test_f35_arguments_that_misbehave_while_opened_end_only_their_job(
    spring: Callable[..., Any], outcome: str, system: System
) -> None:
    trap = Trap(spring, str(system.ledger.path))
    future = system.direct.submit(misdeeds.give, trap, outcome=outcome, type=f"f35 {outcome}")

    error = system.direct.end(future)

    assert isinstance(error, grn.JobKilled | MemoryError)
    assert outcome_of(future).outcome == outcome


@pytest.mark.parametrize("cancelled", [False, True], ids=["ends", "cancelled"])
def test_f36_a_daemon_that_a_job_leaves_is_gone_before_its_outcome(
    cancelled: bool, system: System, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    then = misdeeds.loop if cancelled else misdeeds.nothing
    outcome = "cancelled" if cancelled else "succeeded"
    future = system.direct.submit(
        misdeeds.daemonise_and, str(pids), then, outcome=outcome, grace=GRACE_S
    )
    (daemon,) = pids_in(pids, 1)
    if cancelled:
        assert alive(daemon)
        assert future.cancel()

    system.direct.end(future)

    assert outcome_of(future).outcome == outcome
    assert not alive(daemon)


def test_f37_a_child_that_keeps_the_output_open_delays_nothing(system: System) -> None:
    warm(system, "f37")
    began = time.monotonic()
    future = system.direct.submit(misdeeds.hold_stdout, type="f37")

    child = future.result(10 * PATIENCE)

    assert time.monotonic() - began < 1.5 * PATIENCE
    assert not alive(child)
    system.direct.told(future, None)


def test_f42_endless_output_is_capped_and_does_not_burden_the_broker(system: System) -> None:
    broker = system.broker_pid()
    before = memory_mib(broker)
    program = system.program(
        f"""
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for line in (100, {10 * MIB}):
    talking = direct.submit(misdeeds.talk, {TALKED_MIB // 2}, line, outcome="failed")
    assert str(direct.end(talking, 120)) == "talked enough"
    assert len(talking.outcome.last_lines) <= {MOST_SAID}
"""
    )

    assert program.ended(120) == 0, program.said()
    assert memory_mib(broker) < before + BURST_MIB
    for worker in system.worker_pids():
        assert memory_mib(worker) < 200


def test_f42_the_last_lines_are_told_without_what_a_terminal_would_obey(
    system: System,
) -> None:
    body = misdeeds.talk_and_die
    future = system.direct.submit(body, outcome="killed")

    error = system.direct.end(future)

    assert isinstance(error, grn.JobKilled)
    assert "red" in str(error)
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)


def test_f43_a_body_that_loses_its_surroundings_still_gives_its_value(
    system: System, tmp_path: Path
) -> None:
    directory = str(tmp_path / "gone")
    future = system.direct.submit(misdeeds.destroy_surroundings, directory, value="still here")

    assert system.direct.end(future) == "still here"


def memory_mib(pid: int) -> float:
    """What a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB
