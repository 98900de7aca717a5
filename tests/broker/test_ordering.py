"""Who goes first: priorities, then time, with shorter jobs ahead within bounds."""

import pytest

from broker.ordering import order_key
from tests.broker.machine import Machine
from tests.builders import a_spec


def test_who_came_first_is_served_first() -> None:
    assert order_key(0, 1.0, 10.0, 0.0, 1) < order_key(0, 2.0, 10.0, 0.0, 2)
    assert order_key(0, 1.0, 10.0, 0.0, 1) < order_key(0, 1.0, 10.0, 0.0, 2)


def test_a_higher_priority_goes_before_everything() -> None:
    assert order_key(1, 1000.0, 1e6, 0.0, 2) < order_key(0, 0.0, 0.0, 0.0, 1)
    assert order_key(0, 1000.0, None, 0.0, 2) < order_key(-1, 0.0, None, 0.0, 1)


def test_a_shorter_job_goes_first_within_bounds() -> None:
    long = order_key(0, 0.0, 100.0, 0.0, 1)

    assert order_key(0, 199.0, 0.0, 0.0, 2) < long
    assert order_key(0, 201.0, 0.0, 0.0, 2) > long
    assert order_key(0, 150.0, 20.0, 0.0, 2) < long
    assert order_key(0, 150.0, 30.0, 0.0, 2) > long


def test_what_is_large_steps_back_less_for_what_is_short() -> None:
    small, large = (order_key(0, 0.0, 100.0, share, 1) for share in (0.1, 0.9))

    assert large < order_key(0, 30.0, 0.0, 0.1, 2) < small


def test_a_new_type_is_measured_soon() -> None:
    assert order_key(0, 10.0, None, 0.0, 2) < order_key(0, 0.0, 60.0, 0.0, 1)


def test_nobody_is_overtaken_for_ever() -> None:
    """However short they are: those that come late enough stay behind."""
    old = order_key(0, 0.0, 3600.0, 0.0, 1)
    later = [order_key(0, float(now), 0.0, 0.0, now) for now in range(0, 20_000, 100)]

    overtaking = [key for key in later if key < old]

    assert len(overtaking) <= 73
    assert max(later) > old


def a_full_machine() -> Machine:
    """Room for one job at a time, of types that were learned as long and as short."""
    machine = Machine(1000)
    number = 5000
    for job_type, run_s in (("long", 100.0), ("short", 1.0)):
        for _ in range(20):
            number += 1
            machine.submit(a_spec(number, job_type=job_type))
            machine.run(number, peak=600, run_s=run_s)
    machine.submit(a_spec(100, job_type="short"))
    assert machine.placed(100) == [True]
    return machine


def order_of(machine: Machine, *numbers: int) -> list[int]:
    """The order in which these jobs start, one after the other."""
    started: list[int] = []
    machine.run(100, peak=600, run_s=1.0)
    while len(started) < len(numbers):
        running = [one for one in numbers if machine.placed(one)[0] and one not in started]
        assert len(running) == 1, "one at a time"
        started += running
        run_s = 100.0 if machine.job(running[0]).spec.job_type == "long" else 1.0
        machine.run(running[0], peak=600, run_s=run_s)
    return started


def test_r67_equal_waiters_start_in_the_order_they_asked() -> None:
    machine = a_full_machine()
    for number in (3, 1, 2, 4):
        machine.submit(a_spec(number, job_type="short"))

    assert order_of(machine, 1, 2, 3, 4) == [3, 1, 2, 4]


def test_equal_waiters_of_different_policy_start_in_the_order_they_asked() -> None:
    machine = a_full_machine()
    for number in (1, 2, 3, 4):
        policy = "pack" if number % 2 else "spread"
        machine.submit(a_spec(number, job_type="short", policy=policy))

    assert order_of(machine, 1, 2, 3, 4) == [1, 2, 3, 4]


@pytest.mark.parametrize(("waited_s", "order"), [(50.0, [2, 1]), (150.0, [1, 2])])
def test_a_short_job_overtakes_a_long_one_within_bounds(
    waited_s: float, order: list[int]
) -> None:
    machine = a_full_machine()
    machine.submit(a_spec(1, job_type="long"))
    machine.now += waited_s
    machine.use(0, j100=1)
    machine.submit(a_spec(2, job_type="short"))

    assert order_of(machine, 1, 2) == order


def test_priorities_go_first_among_waiters() -> None:
    machine = a_full_machine()
    machine.submit(a_spec(1, job_type="short"))
    machine.submit(a_spec(2, job_type="short", priority=-1))
    machine.submit(a_spec(3, job_type="short", priority=5))
    machine.submit(a_spec(4, job_type="long", priority=9))

    assert order_of(machine, 1, 2, 3, 4) == [4, 3, 1, 2]


def test_a_job_that_runs_again_keeps_its_place() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.know(300, "small")
    machine.submit(a_spec(1))
    machine.submit(a_spec(2, job_type="small"))
    machine.submit(a_spec(3), a_spec(4))
    machine.start(1)

    machine.finish(1, peak=650, outcome="oom", asked_bytes=1)
    machine.run(2, peak=300)

    assert machine.placed(1, 3, 4) == [True, False, False]
