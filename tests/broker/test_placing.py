"""Where jobs go: sharing by learned need, policies, and the reasons for waiting."""

import pytest

from broker.jobs import State
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine, worker
from tests.builders import MIB, a_device, a_spec, an_id


def test_r09_spread_puts_two_of_four_jobs_on_each_device() -> None:
    machine = Machine(1000, 1000)
    machine.know(300)

    machine.submit(*(a_spec(number, policy="spread") for number in (1, 2, 3, 4)))

    assert sorted(machine.devices(1, 2, 3, 4)) == ["host:0", "host:0", "host:1", "host:1"]


def test_r10_pack_fills_one_device_before_the_next() -> None:
    machine = Machine(1000, 1000)
    machine.know(300)

    machine.submit(*(a_spec(number, policy="pack") for number in (1, 2, 3, 4)))

    assert machine.devices(1, 2, 3, 4) == ["host:0", "host:0", "host:0", "host:1"]


def test_r13_each_job_of_a_type_is_placed_by_its_own_policy() -> None:
    machine = Machine(1000, 1000)
    machine.know(300)
    machine.submit(a_spec(1))

    machine.submit(a_spec(2, policy="pack"))
    machine.submit(a_spec(3, policy="spread"))

    assert machine.devices(1, 2, 3) == ["host:0", "host:0", "host:1"]


def test_r14_pack_uses_the_only_device_again() -> None:
    machine = Machine(1000)
    machine.know(300, policy="pack")

    machine.submit(a_spec(1, policy="pack"), a_spec(2, policy="pack"))

    assert machine.devices(1, 2) == ["host:0", "host:0"]


def test_r15_pack_looks_at_every_device() -> None:
    machine = Machine(1000, 1000)
    machine.know(600)
    machine.use(0, foreign=600)

    machine.submit(a_spec(1, policy="pack"))

    assert machine.devices(1) == ["host:1"]


def test_r16_pack_waits_rather_than_join_a_measuring_run() -> None:
    machine = Machine(1000, 1000)
    machine.know(600)
    machine.use(0, foreign=600)
    machine.submit(a_spec(1, job_type="new"))
    assert machine.devices(1) == ["host:1"]

    machine.submit(a_spec(2, policy="pack"))
    assert machine.devices(2) == [""]

    machine.run(1)
    assert machine.devices(2) == ["host:1"]


def test_r49_three_jobs_of_300_share_1000_and_the_fourth_waits() -> None:
    machine = Machine(1000)
    machine.know(300)

    machine.submit(*map(a_spec, (1, 2, 3, 4)))
    assert machine.placed(1, 2, 3, 4) == [True, True, True, False]

    machine.run(2, peak=300)
    assert machine.placed(4) == [True]


def test_r51_twenty_requests_at_once_yield_exactly_three_leases() -> None:
    machine = Machine(1000)
    machine.know(300)

    machine.submit(*map(a_spec, range(1, 21)))

    assert sum(machine.placed(*range(1, 21))) == 3
    assert len(machine.ledger().leases) == 3


def test_r50_a_reservation_outlives_reports_that_do_not_see_it_yet() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1), a_spec(2))

    for _ in range(10):
        machine.use(0, j1=0)

    assert machine.placed(1, 2) == [True, False]


def test_r52_foreign_memory_keeps_a_job_waiting_until_it_is_freed() -> None:
    machine = Machine(1000)
    machine.know(300)
    machine.use(0, foreign=800)

    machine.submit(a_spec(1))
    assert machine.placed(1) == [False]

    machine.use(0, foreign=0)
    assert machine.placed(1) == [True]


def test_r45_what_its_own_process_kept_does_not_keep_an_inline_job_waiting() -> None:
    machine = Machine(1000)
    machine.know(600)
    uuid = machine.ledger(0).facts.uuid
    machine.use(0, foreign=600)

    machine.submit(a_spec(1, kind="inline", pin=uuid))

    assert machine.lease(1).lease_bytes == 400 * MIB


def test_r60_a_larger_run_raises_the_next_grant() -> None:
    machine = Machine(1000)
    machine.know(10)
    machine.submit(a_spec(1))
    machine.run(1, peak=900)

    machine.submit(a_spec(2))

    assert machine.lease(2).lease_bytes >= 900 * MIB


def test_growth_beyond_the_lease_stops_new_grants() -> None:
    machine = Machine(1000)
    machine.know(300)
    machine.know(250, job_type="other")
    machine.submit(a_spec(1), a_spec(2))
    machine.use(0, j1=500, j2=100)

    machine.submit(a_spec(3, job_type="other"))
    assert machine.placed(3) == [False]

    machine.use(0, j1=300, j2=100)
    assert machine.placed(3) == [True]


def test_r63_a_job_without_room_says_how_much_it_needs_and_what_is_free() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1), a_spec(2))

    expected = "waiting for memory: needs 600.0 MiB, device 0 has 400.0 MiB free"
    assert machine.why(2) == expected


def test_r64_what_fits_no_device_fails_at_once_with_both_numbers() -> None:
    machine = Machine(10_000)
    machine.know(3000)
    machine.lose(an_id(800))
    machine.join(0, 1000, incarnation=an_id(801))

    machine.submit(a_spec(1))

    outcome = machine.outcome(1)
    assert (outcome.outcome, outcome.error_type) == ("failed", "JobTooLarge")
    assert (outcome.need_bytes, outcome.largest_bytes) == (3000 * MIB, 1000 * MIB)
    assert machine.sent(wire.Ended, CLIENT) == [wire.Ended((outcome,))]


def test_r65_a_twin_says_that_it_waits_for_the_profile() -> None:
    machine = Machine(1000)

    machine.submit(a_spec(1), a_spec(2))

    assert machine.why(2) == "waiting for profile of train.py::fit"


def test_r67_equal_waiters_start_in_the_order_they_asked() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(*map(a_spec, range(1, 11)))

    order = []
    for _ in range(10):
        (running,) = [n for n in range(1, 11) if machine.job(n).state is State.ASSIGNED]
        order.append(running)
        machine.run(running, peak=600)

    assert order == list(range(1, 11))


def test_r67_the_order_holds_between_policies_and_pins_of_equal_need() -> None:
    machine = Machine(1000)
    machine.know(300)
    machine.use(0, foreign=900)
    machine.submit(a_spec(1), a_spec(2, policy="pack"), a_spec(3), a_spec(4, pin="HOST-0"))
    assert machine.placed(1, 2, 3, 4) == [False] * 4

    machine.use(0, foreign=300)
    assert machine.placed(1, 2, 3, 4) == [True, True, False, False]

    machine.use(0, foreign=0)
    assert machine.placed(3, 4) == [True, False]


def test_r68_an_unknown_job_goes_to_the_larger_device() -> None:
    machine = Machine(1000, 10_000)

    machine.submit(a_spec(1))

    assert machine.devices(1) == ["host:1"]


def test_r68_a_known_job_does_not_wait_while_the_larger_device_has_room() -> None:
    machine = Machine(10_000, 1000)
    machine.know(3000)

    machine.submit(a_spec(1, policy="pack"), a_spec(2), a_spec(3), a_spec(4))

    assert machine.devices(1, 2, 3, 4) == ["host:0", "host:0", "host:0", ""]
    assert machine.states(4) == ["queued"]


def test_l07_only_the_granted_device_is_charged() -> None:
    machine = Machine(1000, 1000, 1000)
    machine.know(300)
    machine.submit(a_spec(1, job_type="new"), a_spec(2, job_type="newer"))
    assert machine.devices(1, 2) == ["host:0", "host:1"]

    machine.submit(a_spec(3))

    machine.say(CLIENT, wire.AskDevices())
    (devices,) = machine.sent(wire.DevicesAre)
    jobs = [(row.facts.index, row.jobs, row.measuring) for row in devices.rows]
    assert jobs == [(0, 1, "new"), (1, 1, "newer"), (2, 1, "")]
    assert devices.rows[2].leased_bytes == machine.lease(3).lease_bytes


def test_r100_a_limit_of_jobs_at_once_holds_whatever_the_memory() -> None:
    machine = Machine(1000, max_jobs=2)
    machine.know(1)

    machine.submit(*map(a_spec, (1, 2, 3)))

    assert machine.placed(1, 2, 3) == [True, True, False]
    assert machine.why(3).startswith("waiting for a place")


def test_a_pinned_job_goes_to_its_device_or_waits() -> None:
    machine = Machine(1000, 1000)
    machine.know(300)
    machine.use(1, foreign=900)

    machine.submit(a_spec(1, pin="HOST-1"), a_spec(2, pin="nowhere"))
    assert machine.placed(1, 2) == [False, False]
    assert machine.why(2).startswith("waiting for a device")

    machine.use(1, foreign=0)
    assert machine.devices(1, 2) == ["host:1", ""]


def test_a_job_that_nearly_fills_a_device_runs_although_strangers_hold_a_little() -> None:
    machine = Machine(1000)
    machine.know(940, runs=1)
    machine.use(0, foreign=30)

    machine.submit(a_spec(1), a_spec(2))

    assert machine.placed(1, 2) == [True, False]
    assert machine.lease(1).lease_bytes == 940 * MIB


def test_a_job_that_no_longer_fits_beside_strangers_waits() -> None:
    machine = Machine(1000)
    machine.know(940, runs=1)
    machine.use(0, foreign=70)

    machine.submit(a_spec(1))

    assert machine.why(1).startswith("waiting for memory")


def a_machine_short_of_room(idle: int, foreign: int = 0) -> Machine:
    """Two jobs of 300 on 1000 MiB; whether a third fits depends on the rest."""
    machine = Machine(1000)
    machine.know(300)
    machine.submit(a_spec(1), a_spec(2))
    machine.use(0, idle=idle, foreign=foreign)
    return machine


def test_idle_processes_are_ended_once_when_a_job_needs_their_room() -> None:
    machine = a_machine_short_of_room(idle=80)

    machine.submit(a_spec(3))
    assert machine.sent(wire.EndIdle, worker(0)) == [wire.EndIdle("")]
    assert machine.placed(3) == [False]

    machine.wait(1.0)
    assert machine.sent(wire.EndIdle) == []

    machine.use(0, idle=0)
    assert machine.placed(3) == [True]


def test_idle_processes_stay_where_their_room_would_not_help() -> None:
    machine = a_machine_short_of_room(idle=80, foreign=100)

    machine.submit(a_spec(3))

    assert machine.sent(wire.EndIdle) == []


def test_idle_processes_are_asked_again_after_they_had_gone() -> None:
    machine = a_machine_short_of_room(idle=80)
    machine.submit(a_spec(3))
    machine.use(0, idle=0, foreign=100)

    machine.use(0, idle=80)

    assert machine.sent(wire.EndIdle) == [wire.EndIdle("")]


def test_idle_processes_are_ended_for_a_job_that_fits_only_an_empty_device() -> None:
    machine = Machine(1000)
    machine.know(950, runs=1)
    machine.use(0, idle=40, foreign=20)

    machine.submit(a_spec(1))
    assert machine.sent(wire.EndIdle) == [wire.EndIdle("")]

    machine.use(0, idle=0, foreign=20)
    assert machine.placed(1) == [True]


@pytest.mark.parametrize("policy", ["spread", "pack"])
def test_a_silent_device_is_not_taken_for_a_missing_one(policy: str) -> None:
    machine = Machine(10_000, 1000)
    machine.know(3000)
    machine.wait(4.0)
    machine.use(1)
    machine.wait(4.0)

    machine.submit(a_spec(1, policy=policy))
    assert machine.states(1) == ["queued"]
    assert machine.why(1).startswith("waiting for a device")

    machine.use(0)
    assert machine.devices(1) == ["host:0"]


def test_p34_a_queued_job_outlives_the_only_device_that_can_hold_it() -> None:
    machine = Machine(10_000, 1000)
    machine.know(3000)
    machine.use(0, foreign=9000)
    machine.submit(a_spec(1))

    machine.lose(an_id(800))
    assert machine.states(1) == ["queued"]

    machine.join(0, 10_000, peer=worker(2), incarnation=an_id(802))
    assert machine.devices(1) == ["host:0"]


def test_a_device_that_came_back_smaller_is_believed() -> None:
    machine = Machine(10_000, 1000)
    machine.know(3000)
    machine.lose(an_id(800))
    machine.submit(a_spec(1))
    assert machine.states(1) == ["queued"]

    machine.join(0, 2000, peer=worker(2), incarnation=an_id(802))

    assert machine.outcome(1).largest_bytes == 2000 * MIB


def test_a_type_measured_on_one_model_gets_more_room_on_another() -> None:
    machine = Machine(1000)
    machine.know(400)
    other = a_device(1, 1000, device_class="other")
    machine.join(1, 1000, device=other)

    machine.submit(a_spec(1, pin="HOST-1"))

    assert machine.lease(1).lease_bytes == 432 * MIB
