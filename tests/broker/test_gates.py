"""Jobs that may not start yet: held, too early, or after others."""

from typing import Any

import pytest

from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine
from tests.builders import MIB, a_hello, a_spec, an_id


def a_machine() -> Machine:
    """One device, and a type that is known to need little."""
    machine = Machine(1000)
    machine.know(10)
    return machine


def test_a_job_starts_once_the_jobs_before_it_have_succeeded() -> None:
    machine = a_machine()
    machine.submit(a_spec(1), a_spec(2), a_spec(3, after=(an_id(1), an_id(2))))
    assert machine.placed(1, 2, 3) == [True, True, False]
    assert machine.why(3) == "waiting for jobs 21 (assigned), 22 (assigned) to succeed"

    machine.run(1, peak=10)
    assert machine.placed(3) == [False]
    machine.run(2, peak=10)

    assert machine.placed(3) == [True]


@pytest.mark.parametrize("outcome", ["failed", "killed", "lost", "timed-out"])
def test_a_job_is_cancelled_with_those_after_it_if_one_before_it_fails(outcome: str) -> None:
    machine = a_machine()
    machine.submit(a_spec(1), a_spec(2, after=(an_id(1),)), a_spec(3, after=(an_id(2),)))

    machine.run(1, outcome=outcome, exit_status=3)

    assert machine.states(2, 3) == ["cancelled", "cancelled"]
    assert machine.outcome(2).error_text == (f"job 21, after which it was to run, is {outcome}")
    assert machine.outcome(3).error_text == "job 22, after which it was to run, is cancelled"


def test_after_any_end_of_another_a_job_may_start() -> None:
    machine = a_machine()
    machine.submit(a_spec(1), a_spec(2, after_any=(an_id(1),)))
    assert machine.why(2) == "waiting for job 21 (assigned) to end"

    machine.run(1, outcome="failed", exit_status=3)

    assert machine.placed(2) == [True]


def test_a_job_after_one_that_has_ended_starts_or_is_cancelled_at_once() -> None:
    machine = a_machine()
    machine.submit(a_spec(1))
    machine.run(1, peak=10)
    machine.submit(a_spec(2))
    machine.run(2, outcome="failed", exit_status=3)

    machine.submit(a_spec(3, after=(an_id(1),)), a_spec(4, after=(an_id(2),)))

    assert machine.placed(3) == [True]
    assert machine.states(4) == ["cancelled"]


def test_a_job_after_one_that_nobody_knows_is_refused() -> None:
    machine = a_machine()

    machine.submit(a_spec(1, after=(an_id(77),)))

    (refused,) = machine.sent(wire.Refused)
    assert refused.reason == "unknown-dependency"
    assert an_id(77) in refused.text
    assert an_id(1) not in machine.core.book.jobs


def test_a_cancelled_job_no_longer_waits_for_others() -> None:
    machine = a_machine()
    machine.submit(a_spec(1), a_spec(2, after=(an_id(1),)))

    machine.say(CLIENT, wire.Cancel((an_id(2),), interrupt=False))
    machine.run(1, peak=10)

    assert machine.states(1, 2) == ["succeeded", "cancelled"]


def test_a_job_with_a_begin_time_starts_then_and_not_before() -> None:
    machine = a_machine()
    machine.submit(a_spec(1, begin_s=100.0))
    assert machine.core.next_due == machine.job(1).queued_at + 100.0

    machine.wait(96)
    machine.use(0)
    assert machine.placed(1) == [False]
    assert machine.why(1).startswith("waiting for its begin time, in 2.0 s")
    machine.wait(2)

    assert machine.placed(1) == [True]


def test_a_held_job_starts_when_it_is_released() -> None:
    machine = a_machine()
    machine.submit(a_spec(1, held=True))
    assert machine.placed(1) == [False]
    assert machine.why(1) == "held: `grn release 21` lets it start"

    machine.say(CLIENT, wire.Hold((an_id(1),), held=False))

    assert machine.placed(1) == [True]


def test_a_job_waits_for_all_of_its_gates() -> None:
    machine = a_machine()
    machine.submit(a_spec(1), a_spec(2, after=(an_id(1),), begin_s=50.0, held=True))
    machine.run(1, peak=10)
    machine.say(CLIENT, wire.Hold((an_id(2),), held=False))
    assert machine.placed(2) == [False]

    machine.wait(60)
    machine.use(0)

    assert machine.placed(2) == [True]


def test_the_time_to_wait_for_a_device_counts_from_when_it_may_start() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, begin_s=100.0, timeout_s=20.0))
    machine.wait(101)
    assert machine.states(2) == ["queued"]

    machine.wait(21)

    assert machine.states(2) == ["expired"]
    assert "it waited 21.0 s (timeout=20)" in machine.outcome(2).error_text


def test_the_time_of_a_held_job_does_not_run_out() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, timeout_s=20.0))
    machine.say(CLIENT, wire.Hold((an_id(2),), held=True))

    machine.wait(100)

    assert machine.states(2) == ["queued"]


def test_gates_are_there_again_after_a_restart() -> None:
    machine = a_machine()
    machine.submit(
        a_spec(1, detached=True),
        a_spec(2, after=(an_id(1),), detached=True),
        a_spec(3, detached=True),
        a_spec(4, begin_s=500.0, detached=True),
    )
    machine.run(1, peak=10)
    machine.finish(3, peak=10)
    machine.submit(a_spec(5, after=(an_id(2),), detached=True))
    machine.submit(a_spec(6, detached=True, held=True))
    machine.restart()
    machine.join(0, 1000)
    machine.say(CLIENT, a_hello())

    assert machine.states(5, 4, 6) == ["queued", "queued", "queued"]
    assert machine.why(6).startswith("held")
    assert machine.why(4).startswith("waiting for its begin time")
    assert machine.why(5) == "waiting for job 22 (assigned) to succeed"


def test_attached_jobs_behind_gates_are_cancelled_by_a_stop_and_others_stay() -> None:
    machine = a_machine()
    machine.submit(a_spec(1, held=True), a_spec(2, held=True, detached=True))

    machine.say(CLIENT, wire.Stop(drain=False))

    assert machine.states(1, 2) == ["cancelled", "queued"]
    (stopping,) = machine.sent(wire.Stopping)
    assert stopping.kept == 1


def test_what_followed_an_attached_job_is_cancelled_with_it_by_a_stop() -> None:
    machine = Machine()
    machine.submit(a_spec(1), a_spec(2, after=(an_id(1),), detached=True))

    machine.say(CLIENT, wire.Stop(drain=False))

    assert machine.states(1, 2) == ["cancelled", "cancelled"]


def test_a_job_that_was_held_has_all_its_time_after_it_is_released() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, timeout_s=60.0))
    machine.say(CLIENT, wire.Hold((an_id(2),), held=True))
    machine.wait(50)
    machine.say(CLIENT, wire.Hold((an_id(2),), held=False))

    machine.wait(40)
    assert machine.states(2) == ["queued"]
    machine.wait(25)

    assert machine.states(2) == ["expired"]


@pytest.mark.parametrize("changes", [{"after_any": (an_id(1),)}, {"held": True}])
def test_the_time_of_a_job_that_was_gated_does_not_run_out_in_a_restart(
    changes: dict[str, Any],
) -> None:
    machine = a_machine()
    machine.submit(a_spec(1, detached=True))
    machine.submit(a_spec(2, detached=True, timeout_s=60.0, **changes))
    machine.wait(1000)
    machine.use(0)
    machine.say(CLIENT, wire.Pause(paused=True))
    machine.run(1, peak=10)
    machine.say(CLIENT, wire.Hold((an_id(2),), held=False))

    machine.restart()
    machine.wait(1)

    assert machine.states(2) == ["queued"]


def test_time_behind_a_gate_does_not_make_a_job_starve() -> None:
    machine = Machine(1000)
    machine.know(900, job_type="large", runs=3)
    machine.know(300, job_type="small", runs=3)
    machine.submit(a_spec(1, job_type="endless", memory_bytes=300 * MIB))
    machine.start(1)
    machine.submit(a_spec(2, job_type="large", begin_s=100_000.0))
    machine.wait(100_001)
    machine.use(0, j1=300)
    machine.wait(1)
    machine.use(0, j1=300)

    machine.submit(a_spec(3, job_type="small"))

    assert machine.placed(2, 3) == [False, True]


def test_a_device_is_not_kept_for_a_job_that_is_held() -> None:
    machine = Machine(1000)
    machine.know(900, job_type="large", runs=3)
    machine.know(300, job_type="small", runs=3)
    machine.submit(a_spec(1, job_type="endless", memory_bytes=300 * MIB))
    machine.start(1)
    machine.submit(a_spec(2, job_type="large"), a_spec(4, job_type="large"))
    machine.wait(100_000)
    machine.use(0, j1=300)
    machine.wait(1)
    machine.use(0, j1=300)
    machine.submit(a_spec(3, job_type="small"))
    assert machine.placed(3) == [False]

    machine.say(CLIENT, wire.Hold((an_id(2), an_id(4)), held=True))
    machine.wait(1)

    assert machine.placed(3) == [True]
