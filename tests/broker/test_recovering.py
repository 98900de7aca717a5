"""After an out-of-memory: whose doing, what next, and what is told when it is given up."""

from typing import Any

import pytest

from broker.cells import key_of
from broker.jobs import Job
from broker.ledger import Lease, Ledger
from broker.recovering import ALONE, MORE_ROOM, Again, is_culprit, next_try
from grn_zmq import wire
from tests.broker.machine import EPOCH, Machine, worker
from tests.builders import MIB, a_device, a_job, a_result, a_spec


def a_lease(job: str = "a", lease: int = 300, used: int = 0, **changes: Any) -> Lease:
    one = Lease(job, 1, lease * MIB, key_of("fit", {}), **changes)
    one.used_bytes = used * MIB
    return one


def culprit(lease: Lease, *others: Lease, peak: int, asked: int = 0, foreign: int = 0) -> bool:
    ledger = Ledger(a_device(total=1000))
    for one in (lease, *others):
        ledger.grant(one, now=0.0)
    ledger.foreign_bytes = foreign * MIB
    result = a_result(outcome="oom", peak_bytes=peak * MIB, asked_bytes=asked * MIB)
    return is_culprit(lease, ledger, result)


def test_who_wanted_more_than_was_promised_is_the_culprit() -> None:
    assert culprit(a_lease(lease=300), peak=310)
    assert culprit(a_lease(lease=300), peak=290, asked=20)


def test_who_kept_to_its_promise_is_a_victim() -> None:
    assert not culprit(a_lease(lease=300), a_lease("b", 300), peak=200, asked=50)


def test_who_did_not_say_what_it_asked_for_is_a_victim_beside_one_that_outgrew() -> None:
    assert not culprit(a_lease(lease=300), a_lease("b", 300, used=700), peak=200)


def test_who_did_not_say_what_it_asked_for_is_a_victim_of_strangers() -> None:
    assert not culprit(a_lease(lease=300), peak=200, foreign=800)


def test_who_did_not_say_what_it_asked_for_beside_good_neighbours_is_the_culprit() -> None:
    assert culprit(a_lease(lease=300), a_lease("b", 300, used=300), peak=200)


def test_who_had_the_device_to_itself_is_the_culprit() -> None:
    assert culprit(a_lease(lease=900, measuring=True), peak=100, asked=1)
    assert culprit(a_lease(lease=900, alone=True), peak=100, asked=1)


def ran_out(times: int = 1, level: int = 0, oom_retries: int = 2) -> Job:
    job = a_job(oom_retries=oom_retries)
    job.ooms, job.level = times, level
    return job


def test_first_more_room_then_alone_then_no_more() -> None:
    assert next_try(ran_out(1), culprit=True, proof=False) == Again(MORE_ROOM, wary=False)
    assert next_try(ran_out(2, level=1), culprit=True, proof=False) == Again(ALONE, wary=False)
    assert next_try(ran_out(3, level=2), culprit=True, proof=False) is None


def test_a_victim_runs_again_as_before_but_more_carefully() -> None:
    assert next_try(ran_out(1), culprit=False, proof=False) == Again(0, wary=True)
    assert next_try(ran_out(2), culprit=False, proof=False) == Again(ALONE, wary=False)


def test_the_only_retry_is_the_best_there_is() -> None:
    job = ran_out(1, oom_retries=1)

    assert next_try(job, culprit=True, proof=False) == Again(ALONE, wary=False)


def test_who_wants_no_retry_gets_none() -> None:
    assert next_try(ran_out(1, oom_retries=0), culprit=True, proof=False) is None
    assert next_try(ran_out(1, oom_retries=0), culprit=False, proof=False) is None


def test_what_is_proved_is_not_tried_again() -> None:
    assert next_try(ran_out(1), culprit=True, proof=True) is None


def run_out(machine: Machine, number: int, peak: int, asked: int = 0) -> None:
    if machine.states(number) == ["assigned"]:
        machine.start(number)
    machine.finish(number, peak, outcome="oom", asked_bytes=asked * MIB)


def beside(machine: Machine, *numbers: int) -> None:
    """Small neighbours on every device, so that nobody is alone."""
    machine.submit(*(a_spec(number, job_type="neighbour") for number in numbers))
    assert machine.placed(*numbers) == [True] * len(numbers)


def a_shared_machine(*totals: int) -> Machine:
    machine = Machine(*totals)
    machine.know(100)
    machine.know(50, "neighbour")
    beside(machine, *range(51, 51 + len(totals)))
    return machine


def test_r32_it_runs_again_with_an_estimate_above_what_it_reached() -> None:
    machine = a_shared_machine(1000)
    machine.submit(a_spec(1))

    run_out(machine, 1, peak=600)

    assert machine.placed(1) == [True]
    assert machine.job(1).attempt == 2
    assert machine.lease(1).lease_bytes > 720 * MIB
    machine.run(1, peak=650)
    assert machine.outcome(1).outcome == "succeeded"
    assert machine.outcome(1).attempts == 2


def test_l12_the_estimate_rises_by_what_was_asked_for() -> None:
    machine = a_shared_machine(2000)
    machine.submit(a_spec(1))

    run_out(machine, 1, peak=600, asked=200)

    assert machine.lease(1).lease_bytes > 800 * MIB


def test_the_ladder_is_more_room_then_alone_then_the_report() -> None:
    machine = a_shared_machine(1000)
    machine.submit(a_spec(1))

    run_out(machine, 1, peak=200, asked=50)
    assert machine.job(1).level == 1
    assert machine.lease(1).lease_bytes > 250 * MIB
    assert not machine.lease(1).alone

    run_out(machine, 1, peak=400, asked=50)
    assert machine.job(1).level == 2
    assert machine.placed(1) == [False]
    assert "ran out of memory beside others and runs alone next" in machine.why(1)

    machine.run(51, peak=50)
    assert machine.lease(1).alone
    assert machine.lease(1).lease_bytes == 1000 * MIB
    machine.submit(a_spec(2, job_type="neighbour"))
    assert machine.placed(2) == [False]

    run_out(machine, 1, peak=950, asked=100)
    outcome = machine.outcome(1)
    assert outcome.outcome == "oom"
    assert outcome.attempts == 3
    assert outcome.error_text == (
        "train.py::fit ran out of memory 3 times, the last time with all of host:0 "
        "(1000.0 MiB): it had reached 950.0 MiB and asked for 100.0 MiB more. "
        "It cannot fit here."
    )
    assert machine.placed(2) == [True]


def test_the_report_names_the_largest_argument_that_did_fit() -> None:
    machine = Machine(1000)
    for number, size in enumerate((32, 64, 128), start=1):
        machine.submit(a_spec(number, by={"batch_size": size}))
        machine.run(number, peak=6 * size)
    machine.submit(a_spec(9, by={"batch_size": 256}))

    run_out(machine, 9, peak=960, asked=576)

    assert machine.outcome(9).outcome == "oom"
    assert "With batch_size=128 it did fit (768.0 MiB), not with batch_size=256." in (
        machine.outcome(9).error_text
    )


def test_what_had_the_whole_largest_device_is_proved_at_once() -> None:
    machine = Machine(1000, 500)
    machine.submit(a_spec(1))
    assert machine.devices(1) == ["host:0"]

    run_out(machine, 1, peak=990, asked=100)

    assert machine.outcome(1).outcome == "oom"
    assert machine.outcome(1).attempts == 1
    assert machine.outcome(1).error_text.endswith("It cannot fit here.")


def test_a_first_run_on_a_smaller_device_proves_nothing() -> None:
    machine = Machine(1000, 500)
    machine.know(700, "busy")
    machine.submit(a_spec(2, job_type="busy"))
    machine.submit(a_spec(1))
    assert machine.devices(1) == ["host:1"]

    run_out(machine, 1, peak=490, asked=300)
    machine.run(2, peak=700)

    assert machine.devices(1) == ["host:0"]


def test_a_device_that_was_too_small_is_not_tried_again() -> None:
    """It had 490 MiB and asked for 300 more: a device of 500 cannot hold it."""
    machine = Machine(1000, 500)
    machine.know(700, "busy")
    machine.submit(a_spec(2, job_type="busy"))
    machine.submit(a_spec(1))

    run_out(machine, 1, peak=490, asked=300)

    assert machine.placed(1) == [False]


def test_what_ran_out_on_one_model_is_measured_on_another_that_is_larger() -> None:
    machine = Machine()
    for index, total in ((0, 1000), (1, 500)):
        facts = a_device(index, total, device_class=f"model {index}")
        machine.join(index, total, device=facts)
    machine.know(700, "busy")
    machine.submit(a_spec(2, job_type="busy"))
    machine.submit(a_spec(1))
    assert machine.devices(2, 1) == ["host:0", "host:1"]
    run_out(machine, 1, peak=490, asked=300)

    machine.run(2, peak=700)
    machine.use(0)
    machine.use(1)
    machine.wait(1.0)

    assert machine.devices(1) == ["host:0"]
    assert machine.lease(1).lease_bytes > 790 * MIB


def test_strangers_on_the_device_leave_the_proof_open() -> None:
    machine = Machine(1000)
    machine.use(0, foreign=400)
    machine.submit(a_spec(1))

    run_out(machine, 1, peak=590, asked=100)

    assert machine.job(1).live


def test_a_neighbour_that_ran_out_a_moment_before_leaves_the_proof_open() -> None:
    machine = Machine(1000)
    machine.know(300, "grows")
    machine.know(300, "keeps")
    machine.submit(a_spec(1, job_type="grows"), a_spec(2, job_type="keeps"))
    machine.start(1)
    machine.start(2)
    machine.use(0, j1=700, j2=250)

    results = tuple(
        a_result(number, outcome="oom", peak_bytes=peak * MIB, asked_bytes=50 * MIB)
        for number, peak in ((1, 700), (2, 250))
    )
    machine.say(worker(0), wire.Finished(EPOCH, results))

    assert machine.job(1).live
    assert machine.job(2).live


def test_a_cap_leaves_the_proof_open() -> None:
    """It was held to its lease: the device had room for more."""
    machine = Machine(1000)
    machine.know(300)
    machine.submit(a_spec(1, enforce=True))

    run_out(machine, 1, peak=300, asked=100)

    assert machine.job(1).live
    assert machine.lease(1).lease_bytes > 400 * MIB


def test_a_victim_keeps_away_from_its_culprit() -> None:
    machine = Machine(1000, 1000)
    machine.know(300, "grows")
    machine.know(300, "keeps")
    machine.submit(a_spec(1, job_type="grows", policy="pack"))
    machine.submit(a_spec(2, job_type="keeps", policy="pack"))
    assert machine.devices(1, 2) == ["host:0", "host:0"]
    machine.start(1)
    machine.use(0, j1=600, j2=250)

    run_out(machine, 2, peak=250, asked=40)

    assert machine.job(2).wary
    assert machine.job(2).level == 0
    assert machine.devices(1, 2) == ["host:0", "host:1"]
    assert machine.lease(2).lease_bytes == 300 * MIB


def test_a_victim_teaches_no_larger_need() -> None:
    machine = Machine(1000, 1000)
    machine.know(300, "grows")
    machine.know(300, "keeps")
    machine.submit(a_spec(1, job_type="grows", policy="pack"))
    machine.submit(a_spec(2, job_type="keeps", policy="pack"))
    machine.use(0, j1=600, j2=250)

    run_out(machine, 2, peak=250, asked=40)

    machine.submit(a_spec(3, job_type="keeps"))
    assert machine.lease(3).lease_bytes == 300 * MIB


def test_a_victim_comes_back_once_its_neighbours_are_in_doubt_no_more() -> None:
    """A success of such a job on the other device settles the doubt on this one too."""
    machine = Machine(1000, 1000)
    machine.know(300, "grows")
    machine.know(300, "keeps")
    machine.submit(a_spec(1, job_type="grows"), a_spec(2, job_type="grows"))
    machine.submit(a_spec(3, job_type="keeps"))
    assert machine.devices(1, 2, 3) == ["host:0", "host:1", "host:0"]
    machine.use(0, j1=400, j3=250)
    run_out(machine, 3, peak=250, asked=40)
    assert machine.placed(3) == [False]
    assert "a neighbour outgrew its lease before" in machine.why(3)

    machine.submit(a_spec(4, job_type="late"))  # keeps the device that is idle next
    machine.start(2)
    machine.finish(2, peak=400)
    assert machine.devices(4) != machine.devices(3)
    machine.use(0, j1=400)
    machine.use(1)
    machine.wait(1.0)

    assert machine.placed(3) == [True]


def test_without_retries_the_user_is_told_so() -> None:
    machine = a_shared_machine(1000)
    machine.submit(a_spec(1, oom_retries=0))

    run_out(machine, 1, peak=300)

    assert machine.outcome(1).outcome == "oom"
    assert machine.outcome(1).attempts == 1
    assert "It was not run again because of oom_retries=0." in machine.outcome(1).error_text


def test_with_one_retry_it_is_alone_at_once() -> None:
    machine = a_shared_machine(1000, 1000)
    machine.submit(a_spec(1, oom_retries=1))

    run_out(machine, 1, peak=300)
    for number in (51, 52):
        machine.run(number, peak=50)

    assert machine.lease(1).alone
    machine.run(1, peak=800)
    assert machine.outcome(1).outcome == "succeeded"


def test_a_cancelled_job_is_not_run_again() -> None:
    machine = a_shared_machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.say(b"client", wire.Cancel((machine.job(1).job_id,), interrupt=False))

    machine.finish(1, peak=600, outcome="oom")

    assert machine.outcome(1).outcome == "cancelled"


@pytest.mark.parametrize("outcome", ["failed", "killed"])
def test_other_ends_are_never_run_again(outcome: str) -> None:
    machine = a_shared_machine(1000)
    machine.submit(a_spec(1))

    machine.run(1, peak=600, outcome=outcome)

    assert machine.outcome(1).outcome == outcome
    assert machine.outcome(1).attempts == 1
