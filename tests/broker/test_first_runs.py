"""First runs: alone on a device, one per type, and what they teach."""

from typing import Any

import pytest

from broker.jobs import State
from grn_zmq import wire
from grn_zmq.records import JobSpec
from tests.broker.machine import CLIENT, Machine, sent
from tests.builders import MIB, a_hello, a_spec, an_id


def with_stand_in(number: int, **changes: Any) -> JobSpec:
    return a_spec(number, has_stand_in=True, **changes)


def bodies(machine: Machine) -> list[tuple[str, str]]:
    """What was run, in order: job and whether it was the stand-in."""
    return [
        (str(int(run.job_id, 16)), "stand-in" if run.stand_in else "real")
        for run in machine.runs()
    ]


def test_r06_two_functions_of_one_type_share_a_profile() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, job_type="x", function="", payload=b"one"))
    machine.run(1, peak=200)

    machine.submit(a_spec(2, job_type="x", name="other", payload=b"two"))

    assert not machine.lease(2).measuring
    assert machine.lease(2).lease_bytes == 200 * MIB


def test_r19_the_stand_in_runs_once_and_then_the_job_itself_once() -> None:
    machine = Machine(1000)
    machine.submit(with_stand_in(1, payload=b"the call's arguments"))
    machine.run(1, peak=100, payload=b"measured")
    assert machine.states(1) == ["assigned"]

    machine.run(1, peak=110, payload=b"value")
    machine.submit(with_stand_in(2))
    machine.run(2)

    assert bodies(machine) == [("1", "stand-in"), ("1", "real"), ("2", "real")]
    assert {run.payload for run in machine.runs()[:2]} == {b"the call's arguments"}
    assert machine.outcome(1).payload == b"value"
    ended = [one.outcomes[0].job_id for one in sent(machine.all_effects, wire.Ended)]
    assert ended == [an_id(1), an_id(2)]


@pytest.mark.parametrize("outcome", ["failed", "killed", "lost", "oom"])
def test_r22_a_failing_stand_in_ends_the_job_with_its_outcome(outcome: str) -> None:
    machine = Machine(1000)
    machine.submit(with_stand_in(1))

    machine.run(1, peak=950, outcome=outcome, error_type="ValueError", payload=b"its exception")

    assert bodies(machine) == [("1", "stand-in")]
    assert machine.outcome(1).outcome == outcome
    assert machine.outcome(1).payload == b"its exception"


def test_r23_four_concurrent_first_calls_run_one_stand_in_and_four_jobs() -> None:
    machine = Machine(1000, 1000)
    for number in (1, 2, 3, 4):
        peer = f"client {number}".encode()
        machine.say(peer, a_hello(900 + number))
        machine.submit(with_stand_in(number), peer=peer)

    for _ in range(5):
        for number in (1, 2, 3, 4):
            if machine.job(number).state is State.ASSIGNED:
                machine.run(number, peak=100)

    assert bodies(machine).count(("1", "stand-in")) == 1
    assert sorted(number for number, body in bodies(machine) if body == "real") == list("1234")
    assert len(bodies(machine)) == 5


def test_r24_of_three_calls_of_a_new_type_one_runs_until_it_completes() -> None:
    machine = Machine(1000, 1000)
    machine.submit(*map(a_spec, (1, 2, 3)))
    assert machine.placed(1, 2, 3) == [True, False, False]

    machine.start(1)
    machine.use(0, j1=200)
    assert machine.placed(2, 3) == [False, False]

    machine.finish(1, peak=200)
    assert machine.placed(2, 3) == [True, True]


def test_r25_two_new_types_are_measured_on_two_devices() -> None:
    machine = Machine(1000, 1000)

    machine.submit(a_spec(1, job_type="a"), a_spec(2, job_type="b"))

    assert machine.devices(1, 2) == ["host:0", "host:1"]
    assert machine.lease(1).measuring
    assert machine.lease(2).measuring


def test_r26_nothing_starts_beside_a_measuring_run() -> None:
    machine = Machine(1000)
    machine.know(1, job_type="tiny")
    machine.submit(a_spec(1, job_type="new"))
    machine.use(0, j1=10)

    machine.submit(a_spec(2, job_type="tiny"))
    assert machine.placed(2) == [False]
    assert "is being measured" in machine.why(2)

    machine.run(1)
    assert machine.placed(2) == [True]


def test_r27_a_new_type_waits_until_a_device_is_idle() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1))

    machine.submit(a_spec(2, job_type="new"))
    assert machine.placed(2) == [False]
    assert machine.why(2).startswith("waiting for an idle device")

    machine.run(1, peak=600)
    assert machine.placed(2) == [True]


@pytest.mark.parametrize("outcome", ["failed", "killed", "timed-out", "lost"])
def test_r28_only_successes_teach(outcome: str) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, peak=100, outcome=outcome)

    machine.submit(a_spec(2))

    assert machine.lease(2).measuring


def test_r30_a_failed_measuring_run_frees_its_device_for_another_type() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, job_type="a"), a_spec(2, job_type="b"))

    machine.run(1, outcome="failed")

    assert machine.placed(2) == [True]


def test_r105_two_simultaneous_first_requests_get_one_measuring_grant() -> None:
    machine = Machine(1000, 1000)
    machine.say(b"other", a_hello(901))

    for round_number in range(50):
        first, second = 2 * round_number + 1, 2 * round_number + 2
        job_type = f"type {round_number}"
        machine.submit(a_spec(first, job_type=job_type))
        machine.submit(a_spec(second, job_type=job_type), peer=b"other")

        assert [machine.lease(first).measuring, *machine.placed(second)] == [True, False]
        machine.run(first)
        assert not machine.lease(second).measuring
        machine.run(second)


def test_l04_all_waiters_of_a_measured_type_finish() -> None:
    machine = Machine(1000)
    numbers = range(1, 66)
    machine.submit(*map(a_spec, numbers))
    assert sum(machine.placed(*numbers)) == 1

    while live := [n for n in numbers if machine.job(n).state is State.ASSIGNED]:
        machine.run(live[0], peak=100)

    assert set(machine.states(*numbers)) == {"succeeded"}


def test_l06_with_every_device_measuring_a_further_type_is_served_later() -> None:
    machine = Machine(1000, 1000)
    machine.submit(*(a_spec(number, job_type=f"type {number}") for number in (1, 2, 3)))
    assert machine.placed(1, 2, 3) == [True, True, False]

    machine.run(2)

    assert machine.devices(3) == ["host:1"]


def test_r56_a_job_that_was_never_seen_on_the_device_returns_normally() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, peak=0, seen=False)

    machine.submit(a_spec(2))

    assert (machine.outcome(1).outcome, machine.outcome(1).seen) == ("succeeded", False)
    assert machine.lease(2).lease_bytes == 10 * MIB


def test_r61_arguments_named_as_key_keep_separate_profiles() -> None:
    machine = Machine(1000)
    machine.know(10, by={"n": 10})
    machine.know(900, by={"n": 900})

    machine.submit(a_spec(1, by={"n": 10}))
    assert machine.lease(1).lease_bytes < 12 * MIB
    machine.run(1, peak=10)

    machine.submit(a_spec(2, by={"n": 900}))
    assert machine.lease(2).lease_bytes == 900 * MIB


def test_r33_any_outcome_frees_the_lease_and_the_status_is_kept() -> None:
    machine = Machine(1000)
    ends = [
        ("failed", None, None),
        ("failed", 3, None),
        ("killed", None, 9),
        ("lost", None, None),
    ]
    for number, (outcome, exit_status, signal) in enumerate(ends, start=1):
        machine.submit(a_spec(number, job_type=f"type {number}"))
        assert machine.lease(number).measuring

        machine.run(number, outcome=outcome, exit_status=exit_status, signal=signal)

        assert machine.ledger().leases == {}
        kept = machine.outcome(number)
        assert (kept.outcome, kept.exit_status, kept.signal) == (outcome, exit_status, signal)


def test_r34_the_death_of_a_client_frees_device_and_type() -> None:
    machine = Machine(1000)
    machine.say(b"other", a_hello(901))
    machine.submit(a_spec(1), peer=b"other")
    machine.submit(a_spec(2))

    machine.lose(an_id(901))
    machine.finish(1, outcome="killed", signal=15)

    assert machine.states(1, 2) == ["cancelled", "assigned"]
    assert machine.sent(wire.Ended, CLIENT) == []
