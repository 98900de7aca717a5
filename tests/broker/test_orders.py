"""Orders about jobs: hold, release, prefer, pause, clean."""

from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.facts import Undone
from tests.broker.machine import CLIENT, SESSION, Machine
from tests.builders import a_hello, a_spec, an_id


def acted(machine: Machine) -> wire.Acted:
    (answer,) = machine.sent(wire.Acted)
    return answer


def a_busy_machine(**changes: Any) -> Machine:
    """Job 1 runs alone, being measured; whoever comes after it waits."""
    machine = Machine(1000)
    machine.submit(a_spec(1, **changes))
    machine.start(1)
    return machine


def test_a_waiting_job_is_held_and_released() -> None:
    machine = a_busy_machine()
    machine.submit(a_spec(2))

    machine.say(CLIENT, wire.Hold((an_id(2),), held=True))
    assert acted(machine) == wire.Acted((an_id(2),), ())
    machine.finish(1)
    assert machine.placed(2) == [False]
    machine.say(CLIENT, wire.Hold((an_id(2),), held=False))

    assert acted(machine).done == (an_id(2),)
    assert machine.placed(2) == [True]


def test_what_cannot_be_held_is_told_with_the_reason() -> None:
    machine = a_busy_machine()
    machine.submit(a_spec(2))
    machine.say(CLIENT, wire.Cancel((an_id(2),), interrupt=False))

    machine.say(CLIENT, wire.Hold((an_id(1), an_id(2), an_id(9)), held=True))

    only = "only jobs that wait can be held or released"
    assert acted(machine) == wire.Acted(
        (),
        (
            Undone(an_id(1), f"is running: {only}"),
            Undone(an_id(2), f"is cancelled: {only}"),
            Undone(an_id(9), "is not known here"),
        ),
    )


def test_to_hold_twice_is_to_hold_once() -> None:
    machine = a_busy_machine()
    machine.submit(a_spec(2))
    for _ in range(2):
        machine.say(CLIENT, wire.Hold((an_id(2),), held=True))
        assert acted(machine).done == (an_id(2),)

    machine.say(CLIENT, wire.Hold((an_id(2),), held=False))
    machine.finish(1)

    assert machine.placed(2) == [True]


def test_a_held_job_is_held_after_a_restart() -> None:
    machine = a_busy_machine(detached=True)
    machine.submit(a_spec(2, detached=True))
    machine.say(CLIENT, wire.Hold((an_id(2),), held=True))

    machine.restart()

    assert machine.job(2).held
    assert machine.job(2) in machine.core.book.gates


def test_a_job_of_higher_priority_overtakes() -> None:
    machine = a_busy_machine()
    machine.submit(*(a_spec(n, job_type=f"type {n}") for n in (2, 3, 4)))

    machine.say(CLIENT, wire.Prioritise((an_id(4), an_id(1)), 5))

    assert acted(machine).done == (an_id(4),)
    (undone,) = acted(machine).undone
    assert undone.why == "is running: only the priority of jobs that wait can change"
    machine.finish(1)
    assert machine.placed(2, 3, 4) == [False, False, True]


def test_a_changed_priority_is_kept_and_a_repeated_submission_is_still_the_same_job() -> None:
    machine = a_busy_machine(detached=True)
    spec = a_spec(2, detached=True)
    machine.submit(spec)
    machine.say(CLIENT, wire.Prioritise((an_id(2),), -7))

    machine.restart()
    machine.say(CLIENT, a_hello())
    machine.submit(spec)

    assert machine.row(2).priority == -7
    assert not machine.sent(wire.Refused)


def test_a_paused_queue_starts_nothing_and_what_runs_runs_on() -> None:
    machine = a_busy_machine()
    machine.submit(a_spec(2))

    machine.say(CLIENT, wire.Pause(paused=True))
    machine.finish(1)
    assert machine.states(1, 2) == ["succeeded", "queued"]
    assert machine.why(2) == "the queue is paused: `grn resume` lets jobs start again"
    machine.say(CLIENT, wire.Pause(paused=False))

    assert machine.placed(2) == [True]


def test_a_queue_stays_paused_when_the_broker_dies() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Pause(paused=True))

    machine.restart()
    machine.join(0, 1000)
    machine.say(CLIENT, a_hello())
    machine.submit(a_spec(1))

    assert machine.placed(1) == [False]


def test_ended_jobs_are_cleaned_and_live_ones_are_not() -> None:
    machine = a_busy_machine(detached=True)
    machine.finish(1)
    machine.submit(a_spec(2))

    machine.say(CLIENT, wire.Clean((an_id(1), an_id(2))))

    assert acted(machine).done == (an_id(1),)
    (undone,) = acted(machine).undone
    assert undone.why == "is assigned: only ended jobs can be cleaned"
    assert an_id(1) not in machine.core.book.jobs
    machine.commit()
    assert an_id(1) not in machine.disk.tables.jobs


def test_a_job_whose_program_has_not_heard_of_its_end_is_not_cleaned() -> None:
    machine = a_busy_machine()
    machine.finish(1)

    machine.say(CLIENT, wire.Clean((an_id(1),)))
    (undone,) = acted(machine).undone
    assert undone.why == "is still being told to its program (pid 900)"
    machine.say(CLIENT, wire.Received((an_id(1),)))
    machine.say(CLIENT, wire.Clean((an_id(1),)))

    assert acted(machine).done == (an_id(1),)


def test_a_detached_job_can_be_had_again_until_it_is_cleaned() -> None:
    machine = a_busy_machine(detached=True)
    machine.finish(1, outcome="failed", exit_status=3)

    machine.say(CLIENT, wire.AskInputs(an_id(1)))
    (inputs,) = machine.sent(wire.InputsAre)
    assert inputs.spec.job_id == an_id(1)
    assert inputs.spec.job_type == "train.py::fit"
    machine.restart()
    machine.say(CLIENT, a_hello())
    machine.say(CLIENT, wire.AskInputs(an_id(1)))

    assert machine.sent(wire.InputsAre)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "belonged to a program, which has to call it again"),
        ({"detached": True, "token": f"disk-{SESSION}-{an_id(3)}"}, "had large arguments"),
    ],
)
def test_what_cannot_be_had_again_says_why(changes: dict[str, Any], why: str) -> None:
    machine = a_busy_machine(**changes)
    machine.finish(1, outcome="failed", exit_status=3)

    machine.say(CLIENT, wire.AskInputs(an_id(1)))

    (refused,) = machine.sent(wire.Refused)
    assert refused.reason == "not-retriable"
    assert why in refused.text


def test_only_the_last_detached_jobs_can_be_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.retention.KEEP_RETRIABLE", 2)
    machine = Machine(1000)
    for number in (1, 2, 3):
        machine.submit(a_spec(number, detached=True))
        machine.run(number)

    machine.wait(1)

    assert list(machine.core.book.retriable) == [an_id(2), an_id(3)]
    machine.say(CLIENT, wire.AskInputs(an_id(1)))
    assert "so long ago" in machine.sent(wire.Refused)[0].text
    machine.commit()
    assert an_id(1) in machine.disk.tables.spent


def test_a_job_that_wants_its_device_to_itself_gets_it() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2, exclusive=True), a_spec(3))
    assert machine.placed(1, 2, 3) == [True, False, True]
    assert "it wants one to itself (exclusive)" in machine.why(2)

    machine.run(1)
    machine.run(3)

    assert machine.placed(2) == [True]
    assert machine.lease(2).alone
    machine.submit(a_spec(4))
    assert machine.placed(4) == [False]
