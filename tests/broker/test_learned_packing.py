"""The whole core at work: many jobs share devices by what was learned, and none is lost."""

import pytest

from broker.jobs import LEASED
from grn_zmq import wire
from tests.broker.cluster import Life, a_cluster
from tests.broker.machine import EPOCH, Machine, worker
from tests.builders import MIB, a_result, a_spec


def test_four_types_of_which_nothing_is_known_share_four_devices() -> None:
    cluster = a_cluster(*[16_000] * 4)
    for at, (job_type, mib) in enumerate(
        (("a", 1500), ("b", 5000), ("c", 9000), ("d", 14_000))
    ):
        first = 100 * (at + 1)
        cluster.submit(range(first, first + 12), Life(mib, 30.0, 5.0), job_type=job_type)

    cluster.work()

    assert cluster.outcomes() == {"succeeded"}
    assert cluster.ooms == {}
    assert cluster.most_at_once >= 4


@pytest.mark.parametrize("grows_s", [0.0, 20.0])
def test_a_type_that_becomes_three_times_as_large_is_repaired(grows_s: float) -> None:
    cluster = a_cluster(16_000, 16_000)
    cluster.machine.know(2000, "changed")
    cluster.machine.know(1000, "steady")
    cluster.submit(range(1, 21), Life(6000, 60.0, grows_s), job_type="changed")
    cluster.submit(range(101, 121), Life(1000, 60.0), job_type="steady")

    cluster.work()

    assert cluster.outcomes() == {"succeeded"}
    extra = cluster.extra_attempts()
    assert max(extra) <= 2
    assert sum(one > 1 for one in extra) <= len(extra) / 10
    assert all(cluster.ooms.get(number, 0) <= 1 for number in range(101, 121))
    cluster.machine.submit(a_spec(999, job_type="changed"))
    assert 6000 <= cluster.machine.lease(999).lease_bytes / MIB <= 6000 * 1.10


def test_r50_memory_taken_long_after_the_start_is_reserved_from_dispatch() -> None:
    cluster = a_cluster(1000, 1000)
    cluster.machine.know(600)

    cluster.submit(range(1, 7), Life(600, 20.0, 10.0))
    cluster.work()

    assert cluster.ooms == {}
    assert cluster.most_at_once == 1


def test_two_hundred_jobs_whose_memory_ramps_never_overfill_a_device() -> None:
    cluster = a_cluster(*[24_000] * 4)
    cluster.machine.know(3000)

    cluster.submit(range(1, 101), Life(3000, 20.0, 8.0))
    cluster.submit(range(101, 201), Life(3000, 20.0, 3.0))
    cluster.work(20_000.0)

    assert cluster.ooms == {}
    assert cluster.outcomes() == {"succeeded"}
    assert cluster.most_at_once >= 7


def test_r102_fifty_pack_and_fifty_spread_jobs_all_return() -> None:
    cluster = a_cluster(1000, 1000)
    cluster.machine.know(90)

    cluster.submit(range(1, 51), Life(90, 10.0), policy="pack")
    cluster.submit(range(51, 101), Life(90, 10.0), policy="spread")
    cluster.work(20_000.0)

    assert cluster.ooms == {}
    assert cluster.outcomes() == {"succeeded"}


def test_r13_each_job_goes_by_its_own_policy() -> None:
    machine = Machine(1000, 1000)
    machine.know(300)
    machine.submit(a_spec(1))

    machine.submit(a_spec(2, policy="pack"))
    machine.submit(a_spec(3, policy="spread"))

    assert machine.devices(1, 2, 3) == ["host:0", "host:0", "host:1"]


def test_r27_a_new_type_waits_for_an_idle_device_instead_of_running_out() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1))
    machine.submit(a_spec(2, job_type="new"))
    assert machine.placed(2) == [False]
    assert "was never measured and runs alone first" in machine.why(2)

    machine.run(1, peak=600)

    assert machine.lease(2).measuring


def test_r29_after_two_failures_three_run_at_once() -> None:
    machine = Machine(1000)
    for number in (1, 2):
        machine.submit(a_spec(number))
        machine.run(number, peak=100, outcome="failed")

    machine.submit(*map(a_spec, (3, 4, 5)))

    assert machine.placed(3, 4, 5) == [True, True, True]
    assert machine.lease(3).lease_bytes >= 100 * MIB


def test_r60_the_next_grant_reserves_what_the_last_run_took() -> None:
    machine = Machine(1000)
    machine.know(10)
    machine.submit(a_spec(1))
    machine.run(1, peak=900)

    machine.submit(a_spec(2))

    assert machine.lease(2).lease_bytes >= 900 * MIB


def test_r61_arguments_named_in_by_are_measured_apart() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, by={"mib": 10}))
    machine.run(1, peak=10)
    machine.submit(a_spec(2, by={"mib": 900}))
    machine.run(2, peak=900)

    machine.submit(a_spec(3, by={"mib": 10}))
    assert machine.lease(3).lease_bytes == 10 * MIB
    machine.run(3, peak=10)
    machine.submit(a_spec(4, by={"mib": 900}))
    assert machine.lease(4).lease_bytes == 900 * MIB


def test_batch_sizes_between_those_seen_are_leased_by_a_line() -> None:
    machine = Machine(16_000)
    for number, size in enumerate((8, 64, 256), start=1):
        machine.submit(a_spec(number, by={"batch_size": size}))
        machine.run(number, peak=900 + 40 * size)

    for number, size in enumerate((16, 32, 100, 128, 200, 250), start=10):
        machine.submit(a_spec(number, by={"batch_size": size}))
        assert 1.0 <= machine.lease(number).lease_bytes / MIB / (900 + 40 * size) <= 1.25
        machine.run(number, peak=900 + 40 * size)


def test_r63_who_waits_for_memory_is_told_both_numbers() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1), a_spec(2))

    assert machine.why(2) == (
        "waiting for memory: needs 600.0 MiB, device 0 has 400.0 MiB free"
    )


def test_r64_what_no_device_can_hold_is_refused_at_once() -> None:
    machine = Machine(1000, 800)
    machine.submit(a_spec(1, memory_bytes=1001 * MIB))

    outcome = machine.outcome(1)
    assert outcome.error_type == "JobTooLarge"
    assert (outcome.need_bytes, outcome.largest_bytes) == (1001 * MIB, 1000 * MIB)


def test_r66_an_end_starts_who_waits_in_the_same_event() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)

    machine.finish(1, peak=600)

    assert machine.sent(wire.Assign)
    assert machine.placed(2) == [True]


def test_r67_equal_waiters_start_in_the_order_they_asked() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(*map(a_spec, (1, 2, 3, 4)))

    started = []
    for number in (1, 2, 3, 4):
        started += [one for one in (1, 2, 3, 4) if machine.states(one) == ["assigned"]]
        machine.run(number, peak=600)

    assert started == [1, 2, 3, 4]


def test_r68_mixed_cards() -> None:
    machine = Machine(10_000, 1000)
    machine.submit(a_spec(1))
    assert machine.devices(1) == ["host:0"]
    machine.run(1, peak=3000)
    machine.know(3000)

    machine.submit(*map(a_spec, (2, 3, 4)))

    assert machine.devices(2, 3, 4) == ["host:0", "host:0", "host:0"]


def test_r103_what_a_job_left_behind_is_not_given_away() -> None:
    machine = Machine(1000)
    machine.know(700)
    machine.submit(a_spec(1))
    machine.run(1, peak=700)
    machine.use(0, foreign=400)

    machine.submit(a_spec(2))
    assert machine.placed(2) == [False]

    machine.use(0, foreign=0)
    assert machine.placed(2) == [True]


def test_r107_a_stand_in_below_the_truth_is_corrected_by_the_real_run() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.run(1, peak=100)
    assert machine.lease(1).lease_bytes == int(100 * MIB * 1.08)

    machine.run(1, peak=500)

    machine.submit(a_spec(2, has_stand_in=True))
    assert machine.lease(2).lease_bytes == 500 * MIB


def test_r107_a_stand_in_above_the_truth_is_replaced_by_the_real_run() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.run(1, peak=700)
    machine.run(1, peak=100)

    machine.submit(a_spec(2, has_stand_in=True))

    assert machine.lease(2).lease_bytes == 100 * MIB


def test_a_stand_in_runs_once_for_a_job_even_if_its_figure_is_forgotten() -> None:
    machine = Machine(1000)
    machine.know(600, "busy")
    machine.submit(a_spec(1, has_stand_in=True))
    machine.submit(a_spec(2, job_type="busy"))
    machine.run(1, peak=700)
    assert machine.placed(1, 2) == [True, False] or machine.placed(1, 2) == [False, True]

    machine.say(b"client", wire.ForgetProfiles(("train.py::fit",)))
    for _ in range(3):
        for number in (1, 2):
            if machine.job(number).state in LEASED:
                machine.run(number, peak=600)

    assert machine.states(1, 2) == ["succeeded", "succeeded"]
    assert machine.job(1).attempt <= 2


def test_l02_the_profile_holds_the_highest_utilisation() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, utilisation=0.85, mean_utilisation=0.4)

    machine.say(b"client", wire.AskProfiles(0))

    (row,) = machine.sent(wire.ProfilesAre)[0].rows
    assert row.utilisation == 0.85


def test_l03_strangers_that_leave_wake_who_waits() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.use(0, foreign=500)
    machine.submit(a_spec(1))
    assert machine.placed(1) == [False]

    machine.use(0, foreign=100)

    assert machine.placed(1) == [True]


def test_l06_with_every_device_measuring_a_new_type_is_served_later() -> None:
    machine = Machine(1000, 1000)
    machine.submit(*(a_spec(number, job_type=f"type {number}") for number in (1, 2, 3)))
    assert machine.placed(1, 2, 3) == [True, True, False]

    machine.run(2, peak=100)

    assert machine.lease(3).measuring


def test_l07_the_granted_device_is_charged_and_no_other() -> None:
    machine = Machine(1000, 1000, 1000)
    machine.know(300)
    machine.submit(a_spec(1, job_type="new"), a_spec(2, job_type="newer"))
    assert machine.devices(1, 2) == ["host:0", "host:1"]

    machine.submit(a_spec(3))

    assert [len(machine.ledger(index).leases) for index in range(3)] == [1, 1, 1]
    assert machine.ledger(2).free_bytes() == 700 * MIB


def test_p28_a_job_that_limits_itself_to_a_tenth_shares_the_card_nine_times() -> None:
    machine = Machine(1000)
    machine.know(100)

    machine.submit(*map(a_spec, range(1, 13)))

    assert machine.placed(*range(1, 13)).count(True) >= 9


def test_a_stranger_that_takes_most_of_a_card_leaves_the_rest_to_small_jobs() -> None:
    machine = Machine(24_000, 24_000)
    machine.know(5000, "small")
    machine.know(8000, "large")
    machine.use(0, foreign=18_000)

    machine.submit(a_spec(1, job_type="large"), a_spec(2, job_type="large"))
    machine.submit(a_spec(3, job_type="small", policy="pack"))

    assert machine.devices(1, 2, 3) == ["host:1", "host:1", "host:0"]


def test_a_large_waiter_does_not_hide_a_smaller_one_that_fits_an_idle_device() -> None:
    """The first fits nowhere; the second has wide doubt, but alone it needs no headroom."""
    machine = Machine(1000, 1000)
    machine.know(600, "large")
    machine.know(390, "running")
    machine.use(1, foreign=450)
    machine.use(0)
    machine.submit(a_spec(9, job_type="running"))
    machine.submit(a_spec(1, job_type="large"))
    machine.wait(3.0)
    machine.use(0)
    machine.use(1, foreign=450)

    machine.submit(a_spec(2, job_type="declared", memory_bytes=520 * MIB))
    machine.wait(1.0)

    assert machine.devices(9, 1, 2) == ["host:0", "", "host:1"]


def test_late_results_of_jobs_in_company_teach_both() -> None:
    machine = Machine(1000)
    machine.know(300)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.start(2)

    results = tuple(a_result(number, peak_bytes=320 * MIB) for number in (1, 2))
    machine.say(worker(0), wire.Finished(EPOCH, results))

    machine.submit(a_spec(3))
    assert machine.lease(3).lease_bytes == 320 * MIB
    assert machine.outcome(1).fit >= 2
