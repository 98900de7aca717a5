"""Jobs that submit jobs: ancestors wait for them, so they never stand in the way."""

import pytest

from broker.jobs import State
from grn_zmq import wire
from grn_zmq.records import JobSpec
from tests.broker.machine import Machine
from tests.builders import MIB, a_hello, a_spec, an_attempt, an_id


def child_of(parent: int, number: int, **changes: object) -> JobSpec:
    return a_spec(number, parent=an_id(parent), **changes)


def test_r39_a_job_that_calls_its_own_type_runs_on_the_only_device() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    assert machine.lease(1).measuring

    machine.submit(child_of(1, 2))
    assert machine.devices(2) == ["host:0"]
    machine.run(2, peak=100)
    machine.finish(1, peak=100)

    assert machine.states(1, 2) == ["succeeded", "succeeded"]


def test_a_parent_keeps_only_what_it_uses_and_is_measured_no_longer() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.use(0, j1=250)

    machine.submit(child_of(1, 2, job_type="child"))

    assert machine.lease(1).lease_bytes == 250 * MIB
    assert not machine.lease(1).measuring
    assert machine.lease(2).measuring
    assert machine.lease(2).lease_bytes == 750 * MIB


def test_strangers_stay_away_while_a_child_is_measured() -> None:
    machine = Machine(1000)
    machine.know(10, job_type="tiny")
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(child_of(1, 2, job_type="child"))

    machine.submit(a_spec(3, job_type="tiny"))
    assert machine.placed(3) == [False]

    machine.run(2)
    assert machine.placed(3) == [True]


def test_a_child_prefers_a_device_that_its_ancestors_left_free() -> None:
    machine = Machine(1000, 1000)
    machine.know(600)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.use(0, j1=600)

    machine.submit(child_of(1, 2))

    assert machine.devices(1, 2) == ["host:0", "host:1"]


def test_a_child_is_placed_although_its_parent_holds_the_whole_device() -> None:
    machine = Machine(1000)
    machine.know(900)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.use(0, j1=900)

    machine.submit(child_of(1, 2))

    assert machine.devices(2) == ["host:0"]


def test_a_chain_five_deep_runs_with_one_place() -> None:
    machine = Machine(1000, max_jobs=1)
    machine.know(600)
    machine.submit(a_spec(1))
    for number in range(2, 7):
        machine.start(number - 1)
        machine.use(0, **{f"j{one}": 150 for one in range(1, number)})
        machine.submit(child_of(number - 1, number))
        assert machine.placed(number) == [True]

    machine.submit(a_spec(7))
    assert machine.placed(7) == [False]

    machine.start(6)
    for number in range(6, 0, -1):
        machine.finish(number, peak=600)
    assert set(machine.states(*range(1, 7))) == {"succeeded"}
    assert machine.placed(7) == [True]


def test_a_chain_of_types_that_were_never_measured_runs_with_one_place() -> None:
    machine = Machine(1000, max_jobs=1)
    machine.submit(a_spec(1, job_type="type 1"))
    for number in range(2, 7):
        machine.start(number - 1)
        machine.submit(child_of(number - 1, number, job_type=f"type {number}"))
        assert machine.placed(number) == [True]


def test_a_child_gets_what_another_job_frees_though_its_parent_grows_by_more() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.start(2)
    machine.use(0, j1=100, j2=800)
    machine.submit(child_of(1, 3, job_type="child", memory_bytes=300 * MIB))
    assert machine.placed(3) == [False]

    machine.use(0, j1=700, j2=500)

    assert machine.placed(3) == [True]


def test_two_unrelated_parents_that_both_wait_cannot_deadlock() -> None:
    machine = Machine(1000, max_jobs=2)
    machine.know(450)
    machine.know(700, job_type="large")
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.start(2)
    machine.use(0, j1=450, j2=450)

    machine.submit(child_of(1, 3, job_type="large"))
    assert machine.placed(3) == [False]

    machine.submit(child_of(2, 4, job_type="large"))
    assert machine.placed(3, 4) == [True, False]

    machine.run(3, peak=700)
    assert machine.placed(4) == [False]
    machine.finish(1, peak=450)
    assert machine.placed(4) == [True]
    machine.run(4, peak=700)
    machine.finish(2, peak=450)
    assert set(machine.states(1, 2, 3, 4)) == {"succeeded"}


def test_two_parents_that_wait_for_types_never_measured_cannot_deadlock() -> None:
    machine = Machine(1000)
    machine.know(450)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.start(2)

    machine.submit(child_of(1, 3, job_type="new"))
    machine.submit(child_of(2, 4, job_type="new"))
    assert machine.placed(3, 4) == [True, False]

    machine.run(3)
    machine.run(4)
    assert set(machine.states(3, 4)) == {"succeeded"}


def test_a_job_that_runs_on_is_waited_for_by_the_children_of_others() -> None:
    machine = Machine(1000)
    machine.know(450)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.start(2)
    machine.use(0, j1=450, j2=450)

    machine.submit(child_of(1, 3, job_type="new"))
    assert machine.placed(3) == [False]

    machine.finish(2, peak=450)
    assert machine.placed(3) == [True]


def test_a_detached_child_is_not_waited_for() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)

    machine.submit(child_of(1, 2, detached=True))

    assert machine.job(1).waiting_children == 0
    assert not machine.lease(1).measuring


def test_a_parent_has_waited_when_its_last_child_ended() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(child_of(1, 2), child_of(1, 3))
    assert machine.job(1).waiting_children == 2

    machine.run(2)
    machine.run(3, outcome="failed")

    assert machine.job(1).waiting_children == 0


def test_a_child_outlives_its_parent() -> None:
    machine = Machine(1000, 1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(child_of(1, 2))

    machine.finish(1, outcome="failed")
    machine.run(2)

    assert machine.states(1, 2) == ["failed", "succeeded"]


def test_the_children_of_a_job_end_with_its_process() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.say(b"job process", a_hello(950))
    machine.submit(child_of(1, 2), child_of(1, 3), peer=b"job process")

    machine.lose(an_id(950))

    assert machine.states(2, 3) == ["assigned", "cancelled"]
    assert [end.attempts for end in machine.sent(wire.End)] == [(an_attempt(2),)]


def test_a_parent_that_is_unknown_or_over_makes_no_difference() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)

    machine.submit(child_of(1, 2), child_of(99, 3))

    assert machine.placed(2, 3) == [True, True]
    assert machine.job(1).waiting_children == 0


def test_an_old_parent_is_kept_while_a_child_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.retention.KEEP_ENDED", 0)
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(child_of(1, 2))
    machine.finish(1)

    machine.wait(1.0)
    assert an_id(1) in machine.core.book.jobs

    machine.run(2)
    machine.wait(1.0)
    assert machine.core.book.jobs == {}


def test_children_submitted_by_a_stand_in_do_not_hinder_the_job_itself() -> None:
    machine = Machine(1000, max_jobs=1)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.start(1)
    machine.submit(child_of(1, 2, detached=True))
    machine.finish(1, peak=100)

    while live := [n for n in (1, 2) if machine.job(n).state is State.ASSIGNED]:
        machine.run(live[0])

    assert machine.states(1, 2) == ["succeeded", "succeeded"]


def test_a_parent_named_while_it_still_waits_is_measured_alone_later() -> None:
    machine = Machine(1000)
    machine.know(900, job_type="large")
    machine.submit(a_spec(1, job_type="large"))
    machine.submit(a_spec(2, job_type="new"), child_of(2, 3, job_type="newer"))
    assert machine.placed(2, 3) == [False, False]

    machine.run(1, peak=900)
    while live := [n for n in (2, 3) if machine.job(n).state is State.ASSIGNED]:
        machine.run(live[-1])

    assert machine.states(2, 3) == ["succeeded", "succeeded"]


def test_jobs_that_name_each_other_as_parent_are_no_trap() -> None:
    machine = Machine(1000)

    machine.submit(child_of(2, 1), child_of(1, 2), child_of(3, 3))

    while live := [n for n in (1, 2, 3) if machine.job(n).state is State.ASSIGNED]:
        machine.run(live[0])
    assert set(machine.states(1, 2, 3)) == {"succeeded"}
