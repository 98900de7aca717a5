"""Cancel is decided once, whatever the job is doing and whoever is away meanwhile."""

import pytest

from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine, worker
from tests.builders import a_greet, a_hello, a_spec, an_attempt, an_id, held

NEXT = an_id(888)


def cancel(machine: Machine, number: int = 1, *, interrupt: bool = False) -> None:
    machine.say(CLIENT, wire.Cancel((an_id(number),), interrupt=interrupt))
    assert machine.sent(wire.Cancelling) == [wire.Cancelling((an_id(number),))]


def test_a_queued_job_never_starts() -> None:
    machine = Machine()
    machine.submit(a_spec(1))

    cancel(machine)
    machine.join(0, 1000)

    assert (machine.states(1), machine.runs()) == (["cancelled"], [])


@pytest.mark.parametrize(("interrupt", "how"), [(True, "interrupt"), (False, "terminate")])
def test_a_running_job_is_ended_by_its_worker(interrupt: bool, how: str) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)

    cancel(machine, interrupt=interrupt)
    assert machine.sent(wire.End) == [wire.End(machine.epoch, how, (an_attempt(1),))]
    assert machine.states(1) == ["running"]
    machine.finish(1, outcome="killed", signal=15)

    assert (machine.outcome(1).outcome, machine.outcome(1).signal) == ("cancelled", 15)


def test_a_value_that_comes_after_the_decision_is_too_late() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    cancel(machine)

    machine.finish(1)

    assert machine.states(1) == ["cancelled"]


def test_a_finish_that_was_recorded_first_wins() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)

    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    assert machine.sent(wire.Cancelling) == [wire.Cancelling(())]
    assert machine.states(1) == ["succeeded"]


@pytest.mark.parametrize("held_as", ["running", "finished", "interrupted", None])
@pytest.mark.parametrize("crash", [False, True])
def test_promise_9_the_cancel_of_a_job_that_is_adrift_is_kept(
    held_as: str | None, crash: bool
) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    if held_as:
        machine.start(1)
    machine.restart()
    machine.say(CLIENT, a_hello())
    cancel(machine)
    if crash:
        machine.restart()

    inventory = (held(1, state=held_as),) if held_as else ()
    same = held_as in ("running", None)
    machine.join(0, 1000, inventory=inventory, incarnation=an_id(800) if same else NEXT)
    if held_as == "running":
        ends = [one for one in machine.all_effects if "End(" in repr(one)]
        assert ends, "its worker was not told"
    if machine.job(1).live:
        machine.finish(1)

    assert machine.states(1) == ["cancelled"]
    assert len(machine.runs()) == 1


def test_promise_9_the_cancel_of_a_running_job_outlives_the_broker() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    cancel(machine)
    machine.restart()

    machine.say(worker(0), a_greet(0, inventory=(held(1),)))

    assert machine.sent(wire.End) == [wire.End(machine.epoch, "terminate", (an_attempt(1),))]


def test_a_job_whose_blobs_are_missing_is_accepted_and_cancelled() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, function="f" * 64))
    machine.submit(a_spec(2))

    cancel(machine)

    (accepted,) = machine.sent(wire.Accepted, CLIENT)
    assert [one.number for one in accepted.jobs] == [machine.job(1).number]
    machine.commit()  # numbers go on, also for who was late
    assert machine.states(1) == ["cancelled"]


def test_a_declined_job_that_was_cancelled_is_not_placed_anew() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    cancel(machine)

    machine.say(worker(0), wire.Declined(machine.epoch, "no space", (an_attempt(1),)))

    assert machine.states(1) == ["cancelled"]


def test_an_inline_job_that_no_worker_can_watch_any_more_is_lost() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, kind="inline"))
    machine.start(1)

    machine.say(worker(0), wire.Declined(machine.epoch, "no space", (an_attempt(1),)))

    assert machine.states(1) == ["lost"]


def test_f30_a_worker_that_declines_gets_no_job_until_it_reports() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(worker(0), wire.Declined(machine.epoch, "no space", (an_attempt(1),)))
    assert (machine.states(1), machine.job(1).starts) == (["queued"], 0)
    machine.use(0)

    assert machine.job(1).attempt == 2
