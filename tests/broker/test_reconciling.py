"""Table 2.4: what becomes of an attempt when a worker for its device greets."""

from typing import Any

import pytest

from broker.reconciling import Verdict, judge
from grn_zmq import wire
from tests.broker.machine import Machine, worker
from tests.builders import a_greet, a_report, a_result, a_spec, an_attempt, an_id, held

NEXT = an_id(888)


def a_machine(**options: Any) -> Machine:
    """One job that has begun on the only device, and a broker that may die."""
    machine = Machine(1000)
    machine.submit(a_spec(1, **options))
    machine.start(1)
    machine.commit()
    return machine


def greet(machine: Machine, *inventory: Any, **changes: Any) -> None:
    machine.say(worker(0), a_greet(0, 1000, inventory=inventory, **changes))


@pytest.mark.parametrize(
    ("says", "same_boot", "same_incarnation", "verdict"),
    [
        ("running", True, True, Verdict.KEEP),
        ("finished", True, True, Verdict.KEEP),
        (None, True, True, Verdict.NEVER),
        ("finished", True, False, Verdict.KEEP),
        ("interrupted", True, False, Verdict.LOST),
        (None, True, False, Verdict.NEVER),
        ("running", True, False, Verdict.LOST),
        ("finished", False, False, Verdict.KEEP),
        ("interrupted", False, False, Verdict.LOST),
        (None, False, False, Verdict.LOST),
    ],
)
def test_every_row_of_the_table(
    says: str | None, same_boot: bool, same_incarnation: bool, verdict: Verdict
) -> None:
    found = judge(says, same_boot=same_boot, same_incarnation=same_incarnation)

    assert found is verdict


def test_what_a_worker_said_has_begun_is_not_believed_never_to_have_started() -> None:
    assert judge(None, same_boot=True, same_incarnation=False, begun=True) is Verdict.LOST


def test_f05_a_running_job_outlives_the_broker() -> None:
    machine = a_machine()
    machine.restart()

    greet(machine, held(1))
    assert machine.sent(wire.End) == []
    machine.start(1)
    machine.finish(1)

    assert machine.states(1) == ["succeeded"]
    assert machine.outcome(1).attempts == 1


def test_f06_a_result_that_was_not_recorded_is_recorded_once_it_is_repeated() -> None:
    machine = a_machine()
    machine.finish(1)
    machine.crash()

    greet(machine, held(1, state="finished"))
    machine.finish(1)

    assert machine.sent(wire.Recorded) == [wire.Recorded(machine.epoch, (an_attempt(1),))]
    assert machine.states(1) == ["succeeded"]


def test_f07_a_result_that_was_recorded_is_acknowledged_and_changes_nothing() -> None:
    machine = a_machine()
    machine.finish(1, payload=b"first")
    machine.restart()

    greet(machine, held(1, state="finished"))
    assert machine.sent(wire.Recorded) == [wire.Recorded(machine.epoch, (an_attempt(1),))]
    machine.say_result(0, a_result(1, outcome="failed"))

    assert machine.states(1) == ["succeeded"]
    assert machine.disk.result(an_id(1)) == b"first"


def test_f03_an_attempt_that_its_worker_never_received_is_placed_anew() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.restart()

    greet(machine)
    assert machine.states(1) == ["queued"]
    machine.join(0, 1000)

    assert (machine.job(1).attempt, machine.job(1).starts) == (2, 1)
    machine.run(1)
    assert machine.states(1) == ["succeeded"]


def test_f20_a_next_incarnation_without_start_record_gives_the_job_back() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.lose(an_id(800))

    greet(machine, incarnation=NEXT)

    assert (machine.states(1), machine.job(1).starts) == (["queued"], 0)


def test_f21_a_next_incarnation_with_a_start_record_and_no_result_loses_the_job() -> None:
    machine = a_machine()
    machine.lose(an_id(800))

    greet(machine, held(1, state="interrupted"), incarnation=NEXT)

    assert machine.states(1) == ["lost"]
    assert machine.outcome(1).error_text == "the worker of host:0 died while it ran"
    assert machine.sent(wire.Recorded) == [wire.Recorded(machine.epoch, (an_attempt(1),))]


def test_f23_a_next_incarnation_delivers_the_result_of_the_last() -> None:
    machine = a_machine()
    machine.lose(an_id(800))

    greet(machine, held(1, state="finished"), incarnation=NEXT)
    assert machine.states(1) == ["running"]
    machine.finish(1)

    assert machine.states(1) == ["succeeded"]


def test_f27_broker_and_worker_die_together() -> None:
    machine = a_machine()
    machine.restart()

    greet(machine, held(1, state="interrupted"), incarnation=NEXT)

    assert machine.states(1) == ["lost"]


@pytest.mark.parametrize("inventory", [(), (held(1, state="interrupted"),)])
def test_f28_after_a_reboot_what_has_no_result_is_lost(inventory: tuple[Any, ...]) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, detached=True))
    machine.restart()

    greet(machine, *inventory, incarnation=NEXT, boot_id="another")

    assert machine.states(1) == ["lost"]


def test_f28_after_a_reboot_a_result_is_recorded() -> None:
    machine = a_machine(detached=True)
    machine.restart()

    greet(machine, held(1, state="finished"), incarnation=NEXT, boot_id="another")
    machine.finish(1)

    assert machine.states(1) == ["succeeded"]


def test_a_running_attempt_of_an_ended_job_is_killed() -> None:
    machine = a_machine()
    machine.lose(an_id(800))
    machine.wait(8.0)
    assert machine.states(1) == ["lost"]

    greet(machine, held(1), incarnation=NEXT)

    assert machine.sent(wire.End) == [wire.End(machine.epoch, "kill", (an_attempt(1),))]
    assert machine.core.book.alarms == 0


def test_f31_an_attempt_that_nobody_gave_is_put_aside_and_sets_off_the_alarm() -> None:
    machine = Machine()

    greet(machine, held(7, state="finished"))
    assert machine.sent(wire.Unknown) == [wire.Unknown(machine.epoch, (an_attempt(7),))]
    assert machine.core.book.alarms == 1
    machine.say_result(0, a_result(8))

    assert machine.sent(wire.Unknown) == [wire.Unknown(machine.epoch, (an_attempt(8),))]
    assert machine.core.book.alarms == 2
    assert not machine.core.book.jobs


def test_two_attempts_of_a_job_in_one_greeting_are_told_apart() -> None:
    machine = a_machine(has_stand_in=True)
    machine.finish(1)
    machine.start(1)
    machine.restart()

    greet(machine, held(1, 2), held(1, 1, "finished"))

    assert (machine.states(1), machine.job(1).attempt) == (["assigned"], 2)
    assert machine.sent(wire.Recorded) == [wire.Recorded(machine.epoch, (an_attempt(1),))]


@pytest.mark.parametrize("again", [4, 5], ids=["overtaken", "repeated"])
def test_f64_a_greeting_that_was_overtaken_or_is_repeated_is_ignored(again: int) -> None:
    machine = Machine(1000)
    machine.say(b"new", a_greet(0, greeting=5))
    machine.say(b"new", a_report())
    machine.submit(a_spec(1))

    machine.say(b"old", a_greet(0, greeting=again))

    assert machine.states(1) == ["assigned"]
    assert machine.sent(wire.Welcome) == []
    assert machine.peer_of(machine.job(1)) == b"new"


def test_the_answer_repeats_the_number_of_the_greeting() -> None:
    machine = Machine()

    machine.say(worker(0), a_greet(0, greeting=12))

    assert [one.greeting for one in machine.sent(wire.Welcome)] == [12]


def test_who_is_not_heard_of_after_a_restart_is_given_up_after_a_minute() -> None:
    machine = a_machine(detached=True)
    machine.restart()
    machine.wait(59.0)
    assert machine.job(1).live

    machine.wait(1.0)

    assert machine.states(1) == ["lost"]
    assert machine.outcome(1).error_text == "the worker of host:0 was not heard of again"


@pytest.mark.parametrize("died", [True, False])
def test_a_job_is_not_retried_unless_somebody_proves_that_its_last_run_is_gone(
    died: bool,
) -> None:
    machine = a_machine(retries=1, detached=True)
    if died:
        machine.lose(an_id(800))
    else:
        machine.restart()

    machine.wait(60.0)

    assert machine.states(1) == ["lost"]


def test_a_measuring_run_that_comes_back_is_measured_on_unless_another_is() -> None:
    machine = Machine(1000, 1000)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    assert machine.lease(1).measuring
    machine.restart()
    machine.join(1, 1000)
    assert machine.lease(2).measuring

    greet(machine, held(1))

    assert not machine.lease(1).measuring
