"""Workers: greetings, reports, results, silence and death."""

import pytest

from broker.effects import Watch
from grn_zmq import wire
from grn_zmq.records import Begun, Blob
from tests.broker.machine import CLIENT, EPOCH, Machine, worker
from tests.builders import (
    MIB,
    a_greet,
    a_report,
    a_result,
    a_spec,
    a_use,
    an_attempt,
    an_id,
    held,
)


def a_start(number: int, attempt: int = 1) -> wire.Started:
    return wire.Started((Begun(an_id(number), attempt, "host:0", False, {}),))


def test_a_worker_is_welcomed_and_watched() -> None:
    machine = Machine()

    effects = machine.say(worker(0), a_greet(0))

    assert Watch(an_id(800), 800) in effects
    assert machine.sent(wire.Welcome, worker(0)) == [wire.Welcome(wire.PROTOCOL, EPOCH, 77)]


def test_a_device_gets_its_first_job_when_it_has_reported() -> None:
    machine = Machine()
    machine.say(worker(0), a_greet(0))
    machine.submit(a_spec(1))
    assert machine.placed(1) == [False]

    machine.say(worker(0), a_report(foreign_bytes=400 * MIB))

    assert machine.lease(1).lease_bytes == 600 * MIB


def test_attempts_that_nobody_gave_a_worker_are_ended() -> None:
    machine = Machine()

    machine.say(worker(0), a_greet(0, inventory=(held(7, 2), held(8))))

    assert machine.sent(wire.End, worker(0)) == [
        wire.End(EPOCH, "kill", (an_attempt(7, 2), an_attempt(8)))
    ]


def test_very_many_attempts_are_ended_in_messages_of_bounded_size() -> None:
    machine = Machine()
    numbers = range(wire.MAX_JOBS_PER_MESSAGE + 2)
    attempts = tuple(map(an_attempt, numbers))

    machine.say(worker(0), a_greet(0, inventory=tuple(map(held, numbers))))

    ends = [one.attempts for one in machine.sent(wire.End, worker(0))]
    assert ends == [attempts[:-2], attempts[-2:]]


def test_a_second_worker_for_a_device_is_refused_while_the_first_lives() -> None:
    machine = Machine(1000)

    machine.say(worker(1), a_greet(0, incarnation=an_id(888)))
    assert [one.reason for one in machine.sent(wire.Refused, worker(1))] == ["device-taken"]

    machine.lose(an_id(800))
    machine.say(worker(1), a_greet(0, incarnation=an_id(888)))
    assert len(machine.sent(wire.Welcome, worker(1))) == 1


def test_a_worker_that_greets_again_keeps_what_it_still_has() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)

    machine.say(b"again", a_greet(0, inventory=(held(1),), greeting=1))

    assert machine.states(1, 2) == ["running", "queued"]
    assert machine.sent(wire.Ended, CLIENT) == []
    machine.finish(1)
    assert machine.states(1) == ["succeeded"]


def test_a_worker_that_greets_again_is_given_blobs_again() -> None:
    machine = Machine(1000)
    function = Blob("f" * 64, b"function")
    machine.say(CLIENT, wire.Blobs((function,)))
    machine.submit(a_spec(1, function=function.digest))
    machine.run(1)
    machine.say(b"again", a_greet(0, greeting=1))
    machine.say(b"again", a_report())

    machine.submit(a_spec(2, function=function.digest))

    assert machine.sent(wire.Blobs, b"again") == [wire.Blobs((function,))]


def test_an_attempt_that_starts_after_it_was_given_up_is_ended() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.say(b"again", a_greet(0, greeting=1))
    assert machine.states(1) == ["queued"]

    machine.say(b"again", a_start(1))

    assert machine.sent(wire.End, b"again") == [wire.End(EPOCH, "kill", (an_attempt(1),))]
    assert machine.states(1) == ["queued"]


def test_a_repeated_start_changes_nothing() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    started_at = machine.job(1).started_at

    machine.say(worker(0), a_start(1))

    assert machine.job(1).started_at == started_at
    assert machine.sent(wire.Started) == []
    assert machine.sent(wire.End) == []


def test_p34_killing_a_worker_loses_no_queued_job() -> None:
    machine = Machine(1000)
    machine.submit(*map(a_spec, (1, 2, 3)))
    machine.start(1)

    machine.lose(an_id(800))
    assert machine.states(1, 2, 3) == ["running", "queued", "queued"]
    assert machine.why(2) == "waiting for a device: no worker is connected"

    machine.join(0, 1000, incarnation=an_id(888), inventory=(held(1, state="interrupted"),))
    assert machine.states(1, 2, 3) == ["lost", "assigned", "queued"]
    machine.run(2)
    machine.run(3)
    assert machine.states(2, 3) == ["succeeded", "succeeded"]


@pytest.mark.parametrize("started", [True, False])
def test_g49_the_jobs_of_a_dead_worker_are_lost_and_not_run_again(started: bool) -> None:
    machine = Machine(1000, 1000)
    machine.submit(a_spec(1))
    if started:
        machine.start(1)
    machine.lose(an_id(800))
    assert machine.job(1).live

    machine.wait(8.0)

    outcome = machine.outcome(1)
    assert (outcome.outcome, outcome.error_type) == ("lost", "JobLost")
    assert outcome.error_text == "the worker of host:0 died and did not come back"
    assert len(machine.runs()) == 1


def test_a_job_that_was_being_cancelled_is_cancelled_when_its_worker_dies() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    machine.lose(an_id(800))
    machine.wait(8.0)

    assert machine.states(1) == ["cancelled"]


def test_a_dead_worker_is_a_stranger() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.lose(an_id(800))

    machine.say_result(0, a_result(1))

    assert [one.reason for one in machine.sent(wire.Refused, worker(0))] == ["greet-first"]
    assert machine.states(1) == ["assigned"]


def test_a_result_is_recorded_and_its_repetition_changes_nothing() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    recorded = [wire.Recorded(EPOCH, (an_attempt(1),))]

    machine.finish(1, payload=b"first")
    assert machine.sent(wire.Recorded, worker(0)) == recorded

    machine.say_result(0, a_result(1, outcome="failed", payload=b"second"))
    assert machine.sent(wire.Recorded, worker(0)) == recorded
    assert machine.sent(wire.Ended) == []
    assert (machine.outcome(1).outcome, machine.outcome(1).payload) == ("succeeded", b"first")


def test_a_late_result_of_an_older_attempt_is_ignored() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.run(1, peak=100, payload=b"of the stand-in")
    assert (machine.job(1).attempt, *machine.states(1)) == (2, "assigned")

    machine.say_result(0, a_result(1, attempt=1, outcome="failed"))
    assert machine.states(1) == ["assigned"]
    assert "ignored the result of an abandoned attempt" in machine.notes()

    machine.say(worker(0), a_start(1, attempt=1))
    machine.say(worker(0), a_report(uses=(a_use(1, used=999, attempt=1),)))
    assert machine.states(1) == ["assigned"]
    assert machine.lease(1).used_bytes == 0


def test_r106_a_result_from_a_worker_without_the_lease_is_refused() -> None:
    machine = Machine(1000, 1000)
    machine.submit(a_spec(1))
    assert machine.devices(1) == ["host:0"]

    machine.say_result(1, a_result(1))
    machine.say_result(1, a_result(99))

    assert machine.states(1) == ["assigned"]
    machine.submit(a_spec(2))
    assert machine.placed(2) == [False]


def test_a_result_of_another_epoch_does_not_count() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(worker(0), wire.Finished(EPOCH - 1, (a_result(1),)))

    assert machine.states(1) == ["assigned"]


def test_a_result_counts_although_the_start_was_never_told() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.finish(1)

    assert machine.states(1) == ["succeeded"]


def test_a_silent_worker_gets_no_new_jobs_but_keeps_those_it_has() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1))

    machine.wait(6.0)
    assert "worker silent: it gets no new jobs" in machine.notes()
    machine.submit(a_spec(2))
    assert machine.states(1, 2) == ["assigned", "queued"]

    machine.wait(6.0)
    assert machine.notes() == []

    machine.use(0, j1=10)
    assert machine.states(1, 2) == ["assigned", "assigned"]


def test_a_worker_that_reports_every_second_is_not_silent() -> None:
    machine = Machine(1000)
    for _ in range(20):
        machine.use(0)
        machine.wait(1.0)

    machine.submit(a_spec(1))

    assert machine.placed(1) == [True]


def test_reports_are_shown_as_they_came() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    uses = (a_use(1, used=70), a_use(99, used=500))
    machine.say(worker(0), wire.Report(300 * MIB, 200 * MIB, 30 * MIB, 0.5, uses))

    machine.say(CLIENT, wire.AskDevices())

    (row,) = machine.sent(wire.DevicesAre)[0].rows
    assert (row.used_bytes, row.foreign_bytes, row.idle_bytes) == (
        300 * MIB,
        200 * MIB,
        30 * MIB,
    )
    assert (row.utilisation, row.jobs, row.worker_pid) == (0.5, 1, 800)
    assert machine.lease(1).used_bytes == 70 * MIB
