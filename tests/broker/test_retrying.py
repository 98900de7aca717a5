"""Retries: as often, and for the causes, that the user said; nothing else runs again."""

from typing import Any, Final

import pytest

from broker.retrying import may_retry
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine
from tests.builders import a_job, a_spec, an_id, held

RAISED: Final[dict[str, Any]] = {"outcome": "failed", "error_type": "train.Diverged"}
BASES = ("train.Diverged", "Diverged", "builtins.ArithmeticError", "ArithmeticError")


@pytest.mark.parametrize(
    ("retry_on", "outcome", "error_type", "again"),
    [
        ((), "failed", "ValueError", True),
        ((), "failed", "JobExited", True),
        ((), "killed", "", True),
        ((), "lost", "", True),
        ((), "timed-out", "", True),
        ((), "succeeded", "", False),
        ((), "cancelled", "", False),
        ((), "oom", "", False),
        ((), "failed", "JobNotStarted", False),
        (("lost",), "lost", "", True),
        (("lost",), "killed", "", False),
        (("killed",), "killed", "", True),
        (("time-limit",), "timed-out", "", True),
        (("exit",), "failed", "JobExited", True),
        (("exit",), "failed", "ValueError", False),
        (("Diverged",), "failed", "train.Diverged", True),
        (("train.Diverged",), "failed", "train.Diverged", True),
        (("ArithmeticError",), "failed", "train.Diverged", True),
        (("ValueError",), "failed", "train.Diverged", False),
        (("ValueError",), "lost", "", False),
    ],
)
def test_a_job_is_retried_for_the_causes_that_were_named(
    retry_on: tuple[str, ...], outcome: str, error_type: str, again: bool
) -> None:
    bases = BASES if error_type == "train.Diverged" else (error_type,)

    assert may_retry(a_job(retries=1, retry_on=retry_on), outcome, error_type, bases) is again


def test_without_retries_nothing_is_retried() -> None:
    assert not may_retry(a_job(), "lost")


def test_a_job_is_run_as_often_as_its_retries_allow_and_then_fails() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=2))

    for _ in range(3):
        assert machine.job(1).live
        machine.run(1, **RAISED)

    assert machine.states(1) == ["failed"]
    assert machine.outcome(1).attempts == 3
    assert [one.attempt for one in machine.runs()] == [1, 2, 3]


def test_a_retry_that_succeeds_is_a_success() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=2))
    machine.run(1, outcome="killed", signal=9)

    machine.run(1)

    assert machine.states(1) == ["succeeded"]


def test_g49_a_lost_job_is_retried_only_if_it_asked_for_it() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2, retries=1))
    machine.start(1)
    machine.start(2)
    machine.lose(an_id(800))

    lost = tuple(held(one, state="interrupted") for one in (1, 2))
    machine.join(0, 1000, incarnation=an_id(888), inventory=lost)

    assert machine.states(1, 2) == ["lost", "assigned"]
    assert machine.job(2).attempt == 2


def test_a_retry_does_not_count_attempts_that_never_began() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=1))
    machine.lose(an_id(800))
    machine.join(0, 1000, incarnation=an_id(888))
    machine.run(1, **RAISED)

    machine.run(1, **RAISED)

    assert machine.states(1) == ["failed"]
    assert (machine.job(1).attempt, machine.job(1).starts) == (3, 2)


def test_retries_and_tries_for_memory_are_counted_apart() -> None:
    machine = Machine(1000, 1000)
    machine.submit(a_spec(1, retries=1, oom_retries=1))
    machine.run(1, peak=10, outcome="oom")
    machine.run(1, **RAISED)

    machine.run(1, **RAISED)

    assert (machine.states(1), machine.outcome(1).attempts) == (["failed"], 3)


def test_a_job_that_is_being_cancelled_is_not_retried() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=5))
    machine.start(1)
    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    machine.finish(1, outcome="killed")

    assert machine.states(1) == ["cancelled"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_retries_are_counted_across_restarts_of_the_broker(when: str) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=1, detached=True))
    machine.run(1, **RAISED)
    if when == "after":
        machine.start(1)
    inventory: Any = (held(1, 2),) if when == "after" else ()
    machine.restart()
    machine.join(0, 1000, inventory=inventory)

    machine.run(1, **RAISED)

    assert machine.states(1) == ["failed"]
