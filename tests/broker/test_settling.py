"""A first run that grows no more: its device opens, and its like may start."""

import pytest

from broker.cells import key_of
from broker.estimates import Kind
from broker.ledger import Lease
from broker.settling import has_settled
from tests.broker.machine import Machine
from tests.builders import MIB, a_device, a_spec

SETTLE_S = 60.0


def a_lease(grown_at: float, granted_at: float = 0.0, used: int = 100) -> Lease:
    lease = Lease("a", 1, 1000 * MIB, key_of("fit", {}), measuring=True)
    lease.used_bytes = used * MIB
    lease.granted_at, lease.grown_at = granted_at, grown_at
    return lease


@pytest.mark.parametrize(
    ("grown_at", "settled_at"),
    [(0.0, 60.0), (10.0, 60.0), (30.0, 60.0), (50.0, 100.0), (600.0, 1200.0)],
)
def test_it_must_be_quiet_for_as_long_as_it_grew(grown_at: float, settled_at: float) -> None:
    lease = a_lease(grown_at)

    assert not has_settled(lease, SETTLE_S, settled_at - 0.1)
    assert has_settled(lease, SETTLE_S, settled_at)


def test_time_counts_from_the_grant() -> None:
    lease = a_lease(granted_at=1000.0, grown_at=1050.0)

    assert not has_settled(lease, SETTLE_S, 1099.0)
    assert has_settled(lease, SETTLE_S, 1100.0)


def test_who_has_used_nothing_is_believed_only_after_long() -> None:
    assert not has_settled(a_lease(0.0, used=0), SETTLE_S, 9.9 * SETTLE_S)
    assert has_settled(a_lease(0.0, used=0), SETTLE_S, 10 * SETTLE_S)


def grow(machine: Machine, number: int, *used: int, index: int = 0) -> None:
    """A device reports once a second what a job uses."""
    for mib in used:
        machine.use(index, **{f"j{number}": mib})


def settled(*totals: int, used: int = 200) -> Machine:
    """Job 1 was measured and has settled."""
    machine = Machine(*totals)
    machine.submit(a_spec(1))
    machine.start(1)
    grow(machine, 1, *[used] * 70)
    assert machine.lease(1).settled
    return machine


def test_the_device_opens_before_the_first_run_ends() -> None:
    machine = Machine(1000)
    machine.know(300, "other")
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(a_spec(2, job_type="other"))
    grow(machine, 1, 50, 100, 200)
    assert machine.placed(2) == [False]

    grow(machine, 1, *[200] * 70)

    assert machine.placed(2) == [True]
    assert machine.lease(1).lease_bytes == int(200 * MIB * 1.08)
    assert not machine.lease(1).measuring
    assert machine.states(1) == ["running"]


def test_the_device_stays_closed_while_the_first_run_grows() -> None:
    machine = Machine(1000)
    machine.know(300, "other")
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(a_spec(2, job_type="other"))

    grow(machine, 1, *range(100, 500, 3))

    assert machine.placed(2) == [False]
    assert machine.lease(1).measuring


def test_time_alone_settles_it_too() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    grow(machine, 1, 200)
    assert machine.lease(1).measuring

    machine.wait(100.0)

    assert machine.lease(1).settled


def test_more_of_its_type_start_under_a_trust_window() -> None:
    machine = settled(1000, 1000, 1000)

    machine.submit(*(a_spec(number) for number in range(2, 9)))

    assert machine.placed(*range(2, 9)).count(True) == 4
    assert "as many run as its unfinished first run can vouch for" in machine.why(8)
    kinds = {machine.lease(number).kind for number in (2, 3, 4, 5)}
    assert kinds == {Kind.SETTLED}


def test_the_trust_window_doubles_with_each_that_has_settled() -> None:
    machine = settled(*[1000] * 4)
    machine.submit(*(a_spec(number) for number in range(2, 16)))
    assert machine.placed(*range(2, 16)).count(True) == 4

    for _ in range(200):
        for index in range(4):
            here = {
                f"j{number}": 200
                for number in range(1, 16)
                if machine.devices(number) == [f"host:{index}"]
            }
            machine.use(index, **here)

    assert machine.placed(*range(2, 16)).count(True) > 4


def test_the_first_end_lifts_the_trust_window() -> None:
    machine = settled(1000, 1000, 1000)
    machine.submit(*(a_spec(number) for number in range(2, 9)))

    machine.finish(1, peak=200)

    assert machine.placed(*range(2, 9)).count(True) == 7


def test_a_later_growth_is_charged_and_told_to_its_like() -> None:
    machine = settled(1000)

    grow(machine, 1, 600)

    assert machine.ledger().free_bytes() == 400 * MIB
    machine.submit(a_spec(2))
    assert machine.placed(2) == [False]
    assert "needs 648.0 MiB" in machine.why(2)


def test_a_stand_in_does_not_settle() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.start(1)

    grow(machine, 1, *[200] * 100)

    assert machine.lease(1).measuring


def test_what_settled_on_one_model_of_device_says_nothing_of_another() -> None:
    machine = settled(1000)
    other = a_device(1, 2000, device_class="other model")
    machine.join(1, 2000, device=other)

    machine.submit(*(a_spec(number) for number in (2, 3, 4)))

    placed = [number for number in (2, 3, 4) if machine.placed(number) == [True]]
    assert placed
    for number in placed:
        assert machine.lease(number).lease_bytes > 200 * MIB
        assert machine.devices(number) == ["host:0"] or machine.lease(number).measuring
