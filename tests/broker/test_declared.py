"""Declared needs in the core: several devices, shares, named resources, environments."""

from dataclasses import replace
from typing import Any

import pytest

from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.records import DeviceProcess, JobSpec, Offer, Use
from tests.broker.machine import CLIENT, SESSION, Machine, worker
from tests.builders import MIB, a_device, a_greet, a_report, a_spec, an_id, held

CAPACITY = {"cpu": {"0": "4"}, "licence": {"0": "1", "1": "1"}}
SETTINGS = Settings(capacity=CAPACITY, gather_s=0.0)


def machine(*totals: int, **how: Any) -> Machine:
    return Machine(*totals, settings=SETTINGS, **how)


def several(number: int, gpus: int = 2, **more: Any) -> JobSpec:
    return a_spec(number, gpus=gpus, **{"job_type": f"gang {gpus}", **more})


def needing(number: int, **amounts: str) -> JobSpec:
    """A job without device that needs these."""
    return a_spec(number, gpus=0, resources=amounts, job_type="errand")


def a_queue(
    there: Machine, capacity: dict[str, dict[str, str]], name: str = "q", **how: Any
) -> None:
    made = {"prefix": (), "max_jobs": None} | how
    there.say(CLIENT, wire.CreateQueue(an_id(5000), name, capacity, **made))


def in_queue(number: int, name: str = "q", **declared: Any) -> JobSpec:
    return a_spec(number, queue=name, job_type="train", kind="command", **declared)


def devices(there: Machine, *numbers: int) -> list[str]:
    return [there.job(number).device for number in numbers]


def why(there: Machine, number: int) -> str:
    hold = there.core.why(there.job(number), there.now)
    return hold.text if hold else ""


def refusals(there: Machine) -> list[tuple[str, str]]:
    return [(one.reason, one.text) for one in there.sent(wire.Refused, CLIENT)]


# --- several devices


def test_r70_two_devices_are_given_at_once_or_none() -> None:
    there = machine(1000, 1000, 1000)
    there.submit(a_spec(1, exclusive=True), a_spec(2, exclusive=True, job_type="b"))

    there.submit(several(3))
    assert there.job(3).places == ()
    there.run(1)

    assert there.job(3).device == "host:0,2"
    (run,) = [one for one in there.runs() if one.job_id == an_id(3)]
    assert [one.index for one in run.devices] == [0, 2]
    assert [len(one.ledger.leases) for one in there.core.book.workers.values()] == [1, 1, 1]


def test_s04_three_of_four_are_three_different_ones() -> None:
    there = machine(1000, 1000, 1000, 1000)

    there.submit(several(1, 3))

    assert there.job(1).device == "host:0,1,2"


def test_p04_all_managed_devices() -> None:
    there = machine(1000, 1000, 1000)

    there.submit(several(1, -1))

    assert there.job(1).device == "host:0,1,2"


def test_p05_more_than_exist_are_refused_at_once_with_both_numbers() -> None:
    there = machine(1000, 1000)

    there.submit(several(1, 3))

    assert there.states(1) == ["failed"]
    assert "3 devices, 2 are managed" in there.outcome(1).error_text


def test_more_than_exist_wait_while_workers_may_still_join() -> None:
    there = Machine(1000, settings=replace(SETTINGS, gather_s=60.0))

    there.submit(several(1, 2))
    assert there.states(1) == ["queued"]
    assert "2 devices, 1 is managed" in why(there, 1)
    there.join(1, 1000)

    assert there.job(1).device == "host:0,1"


def test_s22_order_is_by_number_also_above_ten() -> None:
    there = machine(*[1000] * 12)
    there.submit(a_spec(1, exclusive=True))

    there.submit(several(2, 3))

    assert devices(there, 1, 2) == ["host:0", "host:1,2,3"]


def test_p35_the_closest_pair_is_preferred() -> None:
    there = machine()
    near = {("HOST-1", "HOST-3"): 10, ("HOST-0", "HOST-2"): 20}
    for index in range(4):
        uuid = f"HOST-{index}"
        links = {
            next(iter({a, b} - {uuid})): far for (a, b), far in near.items() if uuid in (a, b)
        }
        there.join(index, 1000, device=replace(a_device(index, 1000), links=links))

    there.submit(several(1), several(2))

    assert devices(there, 1, 2) == ["host:1,3", "host:0,2"]


def test_p07_in_the_order_a_b_c_b_gets_three_when_a_ends_and_c_one_in_the_same_moment() -> None:
    there = machine(1000, 1000, 1000, 1000)
    there.submit(several(1, 2))
    there.submit(several(2, 3))
    there.submit(a_spec(3, exclusive=True, job_type="c"))
    assert devices(there, 1, 2, 3) == ["host:0,1", "", ""]

    there.run(1)

    assert there.job(2).device == "host:0,1,2"
    assert there.job(3).device == "host:3"


def test_p08_who_ends_in_time_may_have_what_is_kept_and_the_head_is_not_delayed() -> None:
    there = machine(1000, 1000, 1000, 1000)
    there.submit(several(1, 2))
    there.submit(several(2, 3))

    there.submit(a_spec(3, exclusive=True, job_type="c", time_limit_s=20.0))
    assert there.job(3).device == "host:2"
    there.run(3)
    there.run(1)

    assert there.job(2).device == "host:0,1,2"


def test_what_is_kept_for_several_is_let_go_if_it_takes_too_long() -> None:
    there = machine(1000, 1000)
    there.submit(a_spec(1, exclusive=True))
    there.start(1)
    there.submit(several(2))
    there.submit(a_spec(3, exclusive=True, job_type="c"))
    assert there.job(3).device == ""

    for _ in range(400):
        there.wait(1.0)
        for index in (0, 1):
            there.use(index)

    assert there.job(3).device == "host:1"


def test_a_device_of_several_is_closed_to_others_until_the_job_ends() -> None:
    there = machine(1000, 1000)
    there.know(100, "small")
    there.submit(several(1))

    there.submit(a_spec(2, job_type="small"))
    assert there.states(1, 2) == ["assigned", "queued"]
    there.run(1)

    assert there.states(2) == ["assigned"]


def test_the_death_of_a_following_worker_touches_neither_job_nor_device() -> None:
    there = machine(1000, 1000)
    there.know(100, "small")
    there.submit(several(1))
    there.start(1)

    there.lose(there.core.book.worker_at("host-1").incarnation)  # type: ignore[union-attr]
    there.submit(a_spec(2, job_type="small"))
    there.join(1, 1000, incarnation=an_id(4001))

    assert there.states(1, 2) == ["running", "queued"]
    there.finish(1)
    assert there.states(1, 2) == ["succeeded", "assigned"]


def test_after_a_restart_all_devices_of_a_job_are_its_own_whoever_greets_first() -> None:
    there = machine(1000, 1000)
    there.know(100, "small")
    there.submit(several(1))
    there.start(1)

    there.restart()
    there.say(CLIENT, wire.Hello(wire.PROTOCOL, an_id(900), 900))
    there.join(1, 1000)
    there.submit(a_spec(2, job_type="small"))
    assert there.states(1, 2) == ["assigned", "queued"]
    there.join(0, 1000, inventory=(held(1),))

    assert there.states(2) == ["queued"]
    there.finish(1)
    assert there.states(1, 2) == ["succeeded", "assigned"]


def test_use_on_another_device_is_not_taken_for_that_of_strangers() -> None:
    there = machine(1000, 1000)
    there.submit(several(1))
    there.start(1)

    uses = (Use(an_id(1), 1, 300 * MIB), Use(an_id(1), 1, 200 * MIB, device="host-1"))
    there.say(worker(0), a_report(uses=uses))
    there.say(worker(1), a_report(foreign_bytes=250 * MIB))

    assert there.ledger(1).leases[an_id(1)].used_bytes == 200 * MIB
    assert there.ledger(1).foreign_bytes == 50 * MIB


def test_memory_is_learned_per_device_and_by_how_many_there_were() -> None:
    there = machine(1000, 1000)
    there.submit(several(1))
    there.run(1, peak=400)

    (cell,) = [one for one, _ in there.core.book.profiles if one.job_type == "gang 2"]

    assert cell.device_class.startswith("2 × ")
    found = there.core.book.estimate(there.job(1), a_device(0, 1000))
    assert found is not None
    assert found.lease_bytes >= 400 * MIB


# --- whole devices


def strangers(there: Machine, index: int, *pids: int) -> None:
    processes = tuple(DeviceProcess(pid, 5 * MIB, "") for pid in pids)
    there.say(worker(index), a_report(foreign_bytes=5 * MIB, processes=processes))


def a_lease(number: int, gpus: int = 1, **more: Any) -> JobSpec:
    facts = {"kind": "lease", "exclusive": True, "gpus": gpus, "function": "", "payload": b""}
    return a_spec(number, job_type="lease", **{**facts, **more})


def test_s05_a_device_with_a_foreign_process_is_never_given_whole() -> None:
    there = machine(1000, 1000)
    strangers(there, 0, 4711)

    there.submit(a_lease(1), a_lease(2))

    assert devices(there, 1, 2) == ["host:1", ""]
    assert "other programs use 0" in why(there, 2)


def test_s25_a_stranger_on_a_leased_device_makes_the_next_grant_avoid_it() -> None:
    there = machine(1000, 1000)
    there.submit(a_lease(1))
    there.start(1)
    strangers(there, 0, 4711)
    there.finish(1)

    there.submit(a_lease(2))

    assert there.job(2).device == "host:1"


def test_s18_the_only_device_is_given_although_it_drives_the_display() -> None:
    there = machine()
    there.join(0, 1000, device=replace(a_device(0, 1000), display=True))
    strangers(there, 0, 4711)

    there.submit(a_lease(1))

    assert there.job(1).device == "host:0"


def test_s19_the_second_claimer_of_one_device_waits() -> None:
    there = machine(1000)
    there.submit(a_lease(1), a_lease(2))
    assert there.states(1, 2) == ["assigned", "queued"]

    there.run(1)

    assert there.states(2) == ["assigned"]


def test_s15_without_time_to_wait_the_error_lists_the_free_devices() -> None:
    there = machine(1000, 1000, 1000)
    there.submit(a_lease(1))

    there.submit(a_lease(2, 3, timeout_s=0.0))

    assert there.states(2) == ["expired"]
    assert "free are device 1, device 2" in there.outcome(2).error_text


def test_s23_only_devices_that_were_named_are_given() -> None:
    there = machine(1000, 1000, 1000)

    there.submit(
        a_lease(1, among=("2",)), a_lease(2, among=("HOST-1",)), a_lease(3, among=("9",))
    )

    assert devices(there, 1, 2, 3) == ["host:2", "host:1", ""]
    assert "named 9, 0 are managed" in there.outcome(3).error_text


def test_a_lease_teaches_nothing() -> None:
    there = machine(1000)
    there.submit(a_lease(1))
    there.run(1, peak=900)

    assert list(there.core.book.profiles) == []


def test_a_lease_outlives_the_worker_that_watches_its_holder() -> None:
    there = machine(1000)
    there.submit(a_lease(1), a_lease(2))
    there.start(1)

    there.lose(there.core.book.worker_at("host-0").incarnation)  # type: ignore[union-attr]
    interrupted = (held(1, state="interrupted"),)
    there.say(worker(0), a_greet(0, 1000, incarnation=an_id(4001), inventory=interrupted))

    assert there.states(1, 2) == ["running", "queued"]
    ((run,),) = [one.runs for one in there.sent(wire.Assign, worker(0))]
    assert (run.job_id, run.attempt) == (an_id(1), 1)
    assert not there.sent(wire.Recorded)
    there.use(0)
    there.finish(1)
    assert there.states(1, 2) == ["succeeded", "assigned"]


def test_a_lease_whose_holder_died_with_its_worker_is_over() -> None:
    there = machine(1000)
    there.submit(a_lease(1))
    there.start(1)

    there.lose(there.core.book.worker_at("host-0").incarnation)  # type: ignore[union-attr]
    there.lose(SESSION)
    interrupted = (held(1, state="interrupted"),)
    there.say(worker(0), a_greet(0, 1000, incarnation=an_id(4001), inventory=interrupted))

    assert there.states(1) == ["cancelled"]
    assert there.sent(wire.Recorded)


def test_an_idle_holder_is_reported() -> None:
    there = machine(1000)
    there.submit(a_lease(1))
    there.start(1)
    there.use(0, j1=10)
    assert there.row(1).idle_s is None

    for _ in range(100):
        there.use(0, j1=10)

    assert (there.row(1).idle_s or 0.0) > 60.0


# --- shares


def test_a_share_starts_at_once_with_exactly_that_much() -> None:
    there = machine(1000)

    there.submit(a_spec(1, share="0.5"), a_spec(2, share="0.5"), a_spec(3, share="0.5"))

    assert there.states(1, 2, 3) == ["assigned", "assigned", "queued"]
    leases = there.ledger(0).leases
    assert [leases[an_id(one)].lease_bytes for one in (1, 2)] == [500 * MIB, 500 * MIB]
    assert not leases[an_id(1)].measuring


def test_what_was_learned_raises_a_share_and_never_lowers_it() -> None:
    there = machine(1000, 1000)
    there.know(100, "small")
    there.know(700, "large")

    there.submit(a_spec(1, share="0.5", job_type="small"))
    there.submit(a_spec(2, share="0.5", job_type="large"))

    assert there.lease(1).lease_bytes == 500 * MIB
    assert there.lease(2).lease_bytes >= 700 * MIB


def test_a_share_beside_learned_jobs_leaves_them_their_margin() -> None:
    there = machine(1000)
    there.know(500, "known", runs=3)
    there.submit(a_spec(1, job_type="known"))

    there.submit(a_spec(2, share="0.5"))

    assert there.states(1, 2) == ["assigned", "queued"]


def test_a_share_is_a_place_by_itself() -> None:
    there = machine(1000, max_jobs=1)

    there.submit(*(a_spec(number, share="0.1") for number in range(1, 12)))

    assert there.states(*range(1, 12)) == ["assigned"] * 10 + ["queued"]


# --- jobs without device


def test_a_job_without_device_runs_under_the_least_busy_worker() -> None:
    there = machine(1000, 1000)
    there.submit(*(a_spec(number, gpus=0, job_type="errand") for number in range(1, 6)))

    led = [len(one.leads) for one in there.core.book.workers.values()]

    assert there.states(*range(1, 6)) == ["assigned"] * 4 + ["queued"]
    assert led == [2, 2]
    assert not any(one.ledger.leases for one in there.core.book.workers.values())
    assert "cpu: needs 1, 0 left of 4" in why(there, 5)


def test_a_job_without_device_runs_beside_one_that_has_all_of_it() -> None:
    there = machine(1000)
    there.submit(a_spec(1, exclusive=True))

    there.submit(a_spec(2, gpus=0, job_type="errand"))

    assert there.states(1, 2) == ["assigned", "assigned"]
    there.run(2, peak=5000)
    assert there.states(2) == ["succeeded"]
    assert "errand" not in {one.job_type for one, _ in there.core.book.profiles}


def test_jobs_within_jobs_do_not_wait_for_what_their_parents_have() -> None:
    there = machine(1000)
    there.submit(needing(1, cpu="4"))
    there.start(1)

    there.submit(replace(needing(2, cpu="4"), parent=an_id(1)))

    assert there.states(2) == ["assigned"]


# --- named resources and queues


def test_g12_all_of_a_need_is_granted_or_nothing() -> None:
    there = machine(1000)
    there.submit(needing(1, cpu="4"))

    there.submit(needing(2, cpu="1", licence="1"))

    assert there.states(1, 2) == ["assigned", "queued"]
    assert there.job(2).granted == {}
    there.run(1)
    assert set(there.job(2).granted) == {"cpu", "licence"}


def test_g22_when_enough_comes_back_all_that_fit_start() -> None:
    there = machine(1000)
    a_queue(there, {"gpu": {"0": "1"}})
    there.submit(in_queue(1, share="1"), in_queue(2, share="0.5"), in_queue(3, share="0.5"))
    assert there.states(1, 2, 3) == ["assigned", "queued", "queued"]

    there.run(1)

    assert there.states(2, 3) == ["assigned", "assigned"]


def test_g20_equal_jobs_start_in_the_order_they_came() -> None:
    there = machine(1000)
    a_queue(there, {"slot": {"0": "1"}})
    there.submit(*(in_queue(one, gpus=0, resources={"slot": "1"}) for one in range(1, 101)))

    for number in range(1, 101):
        assert there.states(number) == ["assigned"], number
        there.run(number)


def test_g21_a_large_need_starts_in_bounded_time_among_endless_small_ones() -> None:
    there = machine(1000)
    small, number = [needing(1, cpu="1"), needing(2, cpu="1"), needing(3, cpu="1")], 10
    there.submit(*small)
    there.submit(needing(9, cpu="4"))
    running = [1, 2, 3]

    for _ in range(3000):
        number += 1
        there.submit(needing(number, cpu="1"))
        running.append(number)
        oldest = next(one for one in running if there.states(one) == ["assigned"])
        running.remove(oldest)
        there.run(oldest)
        there.use(0)
        if there.states(9) == ["assigned"]:
            break

    assert there.states(9) == ["assigned"]
    assert there.now < 3600.0


def test_g23_what_can_never_be_is_refused_when_submitted_and_named() -> None:
    there = machine(1000)

    there.submit(needing(1, printer="1"), needing(2, cpu="5"))

    first, second = refusals(there)
    assert first[0] == second[0] == "impossible"
    assert "printer" in first[1]
    assert "cpu" in second[1]
    assert "5" in second[1]
    assert "4" in second[1]


def test_g03_two_queues_have_capacities_of_their_own() -> None:
    there = machine(1000, 1000)
    a_queue(there, {"gpu": {"0": "1"}}, "left")
    there.say(CLIENT, wire.CreateQueue(an_id(5001), "right", {"gpu": {"1": "1"}}, (), None))

    there.submit(
        in_queue(1, "left", share="1"),
        in_queue(2, "left", share="1"),
        in_queue(3, "right", share="1"),
    )

    assert devices(there, 1, 2, 3) == ["host:0", "", "host:1"]


def test_g07_only_the_named_devices_are_ever_allocated() -> None:
    there = machine(1000, 1000, 1000, 1000, 1000)
    a_queue(there, {"gpu": {"2": "1", "4": "1"}})

    there.submit(*(in_queue(one, share="1") for one in range(1, 4)))

    assert devices(there, 1, 2, 3) == ["host:2", "host:4", ""]


def test_g37_two_are_two_whole_devices() -> None:
    there = machine(1000, 1000, 1000)
    a_queue(there, {"gpu": {"0": "1", "2": "1"}})

    there.submit(in_queue(1, gpus=2))

    assert there.job(1).device == "host:0,2"
    assert set(there.job(1).granted["gpu"]) == {"0", "2"}


def test_a_queue_runs_no_more_jobs_at_once_than_it_may() -> None:
    there = machine(1000)
    a_queue(there, {"cpu": {"0": "16"}}, max_jobs=2)

    there.submit(*(in_queue(one, gpus=0) for one in range(1, 4)))

    assert there.states(1, 2, 3) == ["assigned", "assigned", "queued"]
    assert "2 jobs at once" in why(there, 3)


def test_g13_a_job_without_need_runs_at_once() -> None:
    there = machine(1000)
    a_queue(there, {"gpu": {"0": "1"}})
    there.submit(in_queue(1, share="1"))

    there.submit(in_queue(2, gpus=0))

    assert there.states(1, 2) == ["assigned", "assigned"]


def test_g10_a_deleted_queue_cancels_who_waits_and_goes_with_the_last_that_runs() -> None:
    there = machine(1000)
    a_queue(there, {"gpu": {"0": "1"}})
    there.submit(in_queue(1, share="1"), in_queue(2, share="1"))

    there.say(CLIENT, wire.DeleteQueue("q", end_running=False))
    assert [one.done for one in there.sent(wire.Acted, CLIENT)] == [(an_id(2),)]
    there.submit(in_queue(3, share="1"))
    assert refusals(there)[-1][0] == "queue-closed"
    assert there.states(1, 2) == ["assigned", "cancelled"]
    there.run(1)
    there.say(CLIENT, wire.AskQueues("q"))

    assert there.states(1) == ["succeeded"]
    assert refusals(there)[-1][0] == "unknown-queue"


def test_g32_a_queue_cannot_be_made_twice_but_asked_for_again() -> None:
    there = machine(1000)
    for _ in range(2):
        a_queue(there, {"cpu": {"0": "1"}})
        assert len(there.sent(wire.QueuesAre, CLIENT)) == 1

    there.say(CLIENT, wire.CreateQueue(an_id(5001), "q", {}, (), None))

    assert refusals(there) == [
        ("queue-exists", "queue q exists: choose another name, or see `grn show`")
    ]


@pytest.mark.parametrize(
    ("capacity", "text"),
    [({"gpu": {"0": "2"}}, "at most 1"), ({"gpu": {"7": "1"}}, "no device 7: managed are 0")],
)
def test_a_queue_has_only_managed_devices(capacity: Any, text: str) -> None:
    there = machine(1000)
    there.wait(1.0)

    a_queue(there, capacity)

    ((reason, said),) = refusals(there)
    assert reason == "bad-capacity"
    assert text in said


def test_a_queue_is_not_called_like_a_job() -> None:
    there = machine(1000)

    a_queue(there, {}, "12")

    assert refusals(there) == [
        ("bad-capacity", "a queue called 12 would hide the job of that number")
    ]


def test_queues_and_what_their_jobs_have_survive_the_broker() -> None:
    there = machine(1000)
    a_queue(there, {"cpu": {"0": "1"}})
    detached: dict[str, Any] = {"gpus": 0, "resources": {"cpu": "1"}, "detached": True}
    there.submit(in_queue(1, **detached), in_queue(2, **detached))

    there.restart()
    there.join(0, 1000, inventory=(held(1),))

    assert there.states(1, 2) == ["assigned", "queued"]
    there.finish(1)
    assert there.states(1, 2) == ["succeeded", "assigned"]


def test_why_names_the_missing_resource_and_who_has_it() -> None:
    there = machine(1000)
    there.submit(needing(1, cpu="3"))
    there.submit(needing(2, cpu="2"))

    there.say(CLIENT, wire.AskWhy(an_id(2)))

    (answer,) = there.sent(wire.WhyIs, CLIENT)
    assert answer.reason.code == "resource-missing"
    assert answer.reason.blockers == (1,)
    (resource,) = answer.reason.resources
    assert (resource.needed, resource.left, resource.capacity) == ("2", "1", "4")
    assert resource.holders == (1,)


# --- environments


def test_a_job_for_an_environment_waits_for_whoever_offers_it() -> None:
    there = machine(1000)

    there.submit(a_spec(1, environment="tensorflow"))
    assert "no worker offers tensorflow; offered: none" in why(there, 1)
    there.join(1, 1000, environments=(Offer("tensorflow", "prefix", "env"),))

    assert there.job(1).device == "host:1"


def test_with_no_time_to_wait_an_environment_nobody_offers_fails_at_once() -> None:
    there = machine(1000)

    there.submit(a_spec(1, environment="tensorflow", timeout_s=0.0))

    assert there.states(1) == ["expired"]
    assert "offers tensorflow" in there.outcome(1).error_text
