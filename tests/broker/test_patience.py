"""`timeout=` bounds the wait for a device, and nothing else; results fade with time too."""

import pytest

from broker.patience import LEAST_TIDIED, Patience
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine
from tests.builders import a_greet, a_job, a_spec, an_id, held


def test_p36_a_job_that_waits_too_long_is_given_up_and_says_what_it_waited_for() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.submit(a_spec(2, timeout_s=3.0))

    machine.wait(3.0)

    outcome = machine.outcome(2)
    assert (outcome.outcome, outcome.error_type) == ("expired", "WaitTimeout")
    assert outcome.error_text.startswith("it waited 3.0 s (timeout=3): ")
    assert "train.py::fit" in outcome.error_text
    assert machine.sent(wire.Ended, CLIENT) == [wire.Ended((outcome,))]


def test_the_broker_wants_to_be_woken_when_patience_ends() -> None:
    machine = Machine()
    machine.submit(a_spec(1, timeout_s=5.0), a_spec(2, timeout_s=3.0))

    assert machine.core.next_due == machine.now + 3.0


def test_timeout_zero_starts_at_once_or_never() -> None:
    machine = Machine(1000)

    machine.submit(a_spec(1, timeout_s=0.0))
    machine.submit(a_spec(2, timeout_s=0.0))

    assert machine.states(1, 2) == ["assigned", "expired"]


def test_a_job_that_began_in_time_is_not_given_up_when_it_waits_again() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, timeout_s=5.0, retries=1))
    machine.start(1)
    machine.submit(a_spec(2, priority=9))
    machine.finish(1, outcome="killed")
    assert machine.states(1, 2) == ["queued", "assigned"]

    machine.wait(60.0)

    assert machine.states(1) == ["queued"]


def test_an_attempt_that_never_began_does_not_stop_the_clock() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, timeout_s=20.0))
    machine.lose(an_id(800))
    machine.say(b"again", a_greet(0, incarnation=an_id(888)))
    assert machine.states(1) == ["queued"]

    machine.wait(20.0)

    assert machine.states(1) == ["expired"]


def test_the_clock_goes_on_while_the_broker_is_away() -> None:
    machine = Machine()
    machine.submit(a_spec(1, timeout_s=20.0, detached=True))
    machine.now += 15.0
    machine.restart()
    machine.wait(4.0)
    assert machine.states(1) == ["queued"]

    machine.wait(1.0)

    assert machine.states(1) == ["expired"]


def test_a_job_that_began_once_is_not_given_up_after_a_restart() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, timeout_s=5.0, retries=1, detached=True))
    machine.start(1)
    machine.lose(an_id(800))
    interrupted = (held(1, state="interrupted"),)
    machine.say(b"again", a_greet(0, incarnation=an_id(888), inventory=interrupted))
    assert machine.states(1) == ["queued"]
    machine.restart()

    machine.wait(30.0)

    assert machine.states(1) == ["queued"]


@pytest.mark.parametrize("state", ["cancelled", "running"])
def test_who_waits_no_more_is_forgotten_long_before_the_time_is_over(state: str) -> None:
    patience = Patience()
    week_s = 7 * 24 * 3600.0
    for number in range(10 * LEAST_TIDIED):
        job = a_job(number + 1, timeout_s=week_s)
        patience.add(job)
        job.state = type(job.state)(state)

    assert len(patience._heap) <= LEAST_TIDIED
