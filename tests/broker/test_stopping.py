"""Stopping by order: no new jobs, running ones end or are waited for, and then all leave."""

from broker.effects import Quit
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine, worker
from tests.builders import a_greet, a_spec, an_id, held


def stop(machine: Machine, *, drain: bool) -> None:
    machine.say(CLIENT, wire.Stop(drain))


def test_a_broker_without_workers_quits_at_once() -> None:
    machine = Machine()

    stop(machine, drain=False)

    assert machine.sent(wire.Stopping) == [wire.Stopping(0)]
    assert Quit() in machine.effects


def test_stop_tells_workers_to_leave_and_quits_when_they_are_gone() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)

    stop(machine, drain=False)
    assert machine.sent(wire.Stopping) == [wire.Stopping(1)]
    assert machine.sent(wire.Leave, worker(0)) == [wire.Leave()]
    machine.say(worker(0), wire.Leaving())
    machine.finish(1, outcome="killed", signal=15)
    assert Quit() not in machine.effects
    machine.lose(an_id(800))

    assert machine.states(1) == ["killed"]
    assert Quit() in machine.effects


def test_drain_waits_for_running_jobs() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    stop(machine, drain=True)
    assert machine.sent(wire.Leave) == []

    machine.finish(1)

    assert machine.states(1) == ["succeeded"]
    assert machine.sent(wire.Leave) == [wire.Leave()]


def test_a_second_order_may_be_a_hastier_one() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    stop(machine, drain=True)

    stop(machine, drain=False)

    assert machine.sent(wire.Leave) == [wire.Leave()]


def test_a_hasty_order_is_not_made_slower_by_a_second_one() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    stop(machine, drain=False)
    stop(machine, drain=True)

    machine.say(worker(0), a_greet(0, inventory=(held(1),), greeting=1))

    assert machine.sent(wire.Leave) == [wire.Leave()]


def test_a_worker_that_reconnects_while_jobs_are_waited_for_is_not_sent_away() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    stop(machine, drain=True)

    machine.say(b"again", a_greet(0, inventory=(held(1),), greeting=1))
    assert machine.sent(wire.Leave) == []
    machine.finish(1)

    assert machine.sent(wire.Leave, b"again") == [wire.Leave()]


def test_a_worker_that_greets_again_is_told_again_to_leave() -> None:
    machine = Machine(1000)
    stop(machine, drain=False)

    machine.say(worker(0), a_greet(0, greeting=1))

    assert machine.sent(wire.Leave) == [wire.Leave()]


def test_drain_waits_for_jobs_whose_worker_is_away() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    stop(machine, drain=True)
    machine.lose(an_id(800))
    assert Quit() not in machine.effects

    machine.wait(8.0)

    assert machine.states(1) == ["lost"]
    assert Quit() in machine.effects


def test_queued_attached_jobs_are_cancelled_and_detached_ones_stay_for_the_next_start() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2), a_spec(3, detached=True))

    stop(machine, drain=True)
    assert machine.sent(wire.Stopping)[0].kept == 1
    assert machine.states(1, 2, 3) == ["assigned", "cancelled", "queued"]
    assert machine.outcome(2).error_text == "the broker is being stopped"
    machine.run(1)
    machine.lose(an_id(800))
    assert Quit() in machine.effects

    machine.restart()
    machine.join(0, 1000)
    assert machine.states(3) == ["assigned"]


def test_no_job_is_taken_or_placed_any_more() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, detached=True))
    stop(machine, drain=True)

    machine.submit(a_spec(3))
    assert [one.reason for one in machine.sent(wire.Refused, CLIENT)] == ["draining"]
    machine.run(1)

    assert machine.states(2) == ["queued"]


def test_a_job_that_would_be_retried_waits_for_the_next_start_or_is_cancelled() -> None:
    machine = Machine(1000)
    machine.know(10)
    machine.submit(a_spec(1, retries=1), a_spec(2, retries=1, detached=True))
    stop(machine, drain=False)

    machine.run(1, outcome="killed")
    machine.run(2, outcome="killed")

    assert machine.states(1, 2) == ["cancelled", "queued"]


def test_a_leaving_worker_gets_no_more_jobs() -> None:
    machine = Machine(1000)
    machine.say(worker(0), wire.Leaving())

    machine.use(0)
    machine.submit(a_spec(1))

    assert machine.placed(1) == [False]
