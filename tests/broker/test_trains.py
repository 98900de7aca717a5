"""Trains: like calls are taken together, run behind each other, and end together."""

from dataclasses import replace
from typing import Any

from broker.jobs import State
from broker.settings import Settings
from broker.trains import DOUBT_S, FIRST_CREDITS, MOST_CREDITS, Credits
from grn_zmq import wire
from grn_zmq.records import AttemptId, Blob, Run
from tests.broker.machine import CLIENT, SESSION, Machine, worker
from tests.builders import a_greet, a_hello, a_spec, an_attempt, an_id, held

OTHER = b"other"
BLOB = Blob("f" * 64, b"function")


def a_machine(*totals: int, **changes: Any) -> Machine:
    """One in which calls of the usual type are known to be short, so that they may ride."""
    machine = Machine(*(totals or (1000,)), max_jobs=1, settings=Settings(**changes))
    know(machine, 0.001)
    return machine


def know(machine: Machine, run_s: float) -> None:
    """Let the usual type be known to take so long."""
    for number in range(10_001, 10_021):
        machine.submit(a_spec(number))
        machine.run(number, peak=10, run_s=run_s)


def calls(*numbers: int, **changes: Any) -> wire.Calls:
    job_ids = tuple(an_id(number) for number in numbers)
    payloads = tuple(f"{number}".encode() for number in numbers)
    return wire.Calls(replace(a_spec(0), payload=b"", **changes), job_ids, payloads)


def returned(machine: Machine, *numbers: int, **changes: Any) -> None:
    """These calls return what they were called with, together."""
    jobs = [machine.job(number) for number in numbers]
    values: dict[str, Any] = {
        "epoch": machine.epoch,
        "job_ids": tuple(job.job_id for job in jobs),
        "attempts": tuple(job.attempt for job in jobs),
        "run_s": tuple(0.001 for _ in jobs),
        "payloads": tuple(f"value {number}".encode() for number in numbers),
        "peak_bytes": 7,
        "utilisation": 0.0,
        "seen": True,
    }
    machine.say(machine.peer_of(jobs[0]), wire.Returned(**{**values, **changes}))


def last_run(machine: Machine) -> Run:
    return machine.runs()[-1]


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(an_id(number) for number in numbers)


def test_calls_are_taken_together_and_numbered_in_a_row() -> None:
    machine = a_machine()
    before = machine.core.book.numbers

    machine.say(CLIENT, calls(1, 2, 3))

    assert machine.sent(wire.Taken) == [wire.Taken(before + 1, ids(1, 2, 3))]
    assert [machine.job(one).number - before for one in (1, 2, 3)] == [1, 2, 3]


def test_short_calls_follow_the_first_in_its_lease() -> None:
    machine = a_machine()

    machine.say(CLIENT, calls(1, 2, 3, 4))

    run = last_run(machine)
    assert (run.job_id, run.payload) == (an_id(1), b"1")
    assert (run.tail.job_ids, run.tail.payloads) == (ids(2, 3, 4), (b"2", b"3", b"4"))
    assert list(machine.ledger().leases) == [an_id(1)]
    assert machine.states(1, 2, 3, 4) == ["assigned"] * 4


def test_calls_that_are_not_known_to_be_short_go_one_by_one() -> None:
    machine = Machine(1000, max_jobs=1)
    know(machine, 5.0)

    machine.say(CLIENT, calls(1, 2, 3))

    assert len(last_run(machine).tail) == 0
    assert machine.states(1, 2) == ["assigned", "queued"]


def test_what_makes_a_call_special_keeps_others_from_following_it() -> None:
    special: list[dict[str, Any]] = [
        {"reuse": False},
        {"enforce": True},
        {"time_limit_s": 5.0},
        {"exclusive": True},
    ]
    for number, changes in enumerate(special):
        machine = a_machine()

        machine.say(CLIENT, calls(1, 2, 3, **changes))

        assert len(last_run(machine).tail) == 0, f"{number}: {changes}"


def test_a_train_is_divided_among_the_workers_that_are_there() -> None:
    machine = a_machine(1000, 1000)

    machine.say(CLIENT, calls(*range(1, 11)))

    first, second = machine.runs()[-2:]
    assert len(first.tail) == 4
    assert len(second.tail) == 2


def test_nobody_rides_where_another_worker_has_room() -> None:
    machine = a_machine(1000, 1000)

    machine.say(CLIENT, calls(1, 2))

    assert machine.devices(1, 2) == ["host:0", "host:1"]
    assert [len(run.tail) for run in machine.runs()[-2:]] == [0, 0]


def test_values_are_told_in_columns_and_the_lease_goes_to_the_next() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3, 4))

    returned(machine, 1, 2)

    (values,) = machine.sent(wire.Values)
    assert (values.job_ids, values.payloads) == (ids(1, 2), (b"value 1", b"value 2"))
    assert values.like.outcome == "succeeded"
    assert machine.sent(wire.Arrived) == [wire.Arrived(machine.epoch, ids(1, 2), (1, 1))]
    assert list(machine.ledger().leases) == [an_id(3)]
    assert machine.states(1, 2, 3, 4) == ["succeeded", "succeeded", "assigned", "assigned"]


def test_the_lease_is_free_after_the_last() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))

    returned(machine, 1, 2, 3)
    assert not machine.ledger().leases
    machine.say(CLIENT, calls(4))

    assert machine.states(4) == ["assigned"]


def test_a_call_that_fails_is_told_by_itself_and_the_rest_goes_on() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))

    machine.finish(1, outcome="failed", error_type="ValueError")
    machine.finish(2, outcome="failed", error_type="ValueError")

    assert machine.states(1, 2, 3) == ["failed", "failed", "assigned"]
    assert list(machine.ledger().leases) == [an_id(3)]


def test_what_comes_back_is_placed_anew_in_its_order() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3, 4))

    back = tuple(an_attempt(number) for number in (2, 3, 4))
    machine.say(worker(0), wire.GivenBack(machine.epoch, back))
    assert machine.states(1, 2, 3, 4) == ["assigned", "queued", "queued", "queued"]
    returned(machine, 1)

    run = last_run(machine)
    assert (run.job_id, run.attempt) == (an_id(2), 2)
    assert machine.job(2).starts == 1


def test_nothing_that_has_begun_comes_back() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    machine.start(1)

    machine.say(worker(0), wire.GivenBack(machine.epoch, (an_attempt(1),)))

    assert machine.states(1, 2) == ["running", "assigned"]


def test_a_rider_is_cancelled_without_harm_to_the_others() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))

    machine.say(CLIENT, wire.Cancel((an_id(2),), interrupt=False))
    assert machine.sent(wire.End) == [wire.End(machine.epoch, "terminate", (an_attempt(2),))]
    machine.finish(2, outcome="cancelled")
    returned(machine, 1, 3)

    assert machine.states(1, 2, 3) == ["succeeded", "cancelled", "succeeded"]


def test_a_value_that_comes_after_its_cancel_is_too_late() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))
    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    returned(machine, 1, 2)

    assert machine.states(1, 2, 3) == ["cancelled", "succeeded", "assigned"]
    assert [one.job_ids for one in machine.sent(wire.Values)] == [ids(2)]


def test_who_never_came_to_a_worker_that_died_is_placed_anew() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))
    machine.lose(an_id(800))

    inventory = (held(1, 1, "interrupted"),)
    machine.join(0, 1000, incarnation=an_id(850), inventory=inventory, max_jobs=1)

    assert machine.states(1, 2, 3) == ["lost", "assigned", "assigned"]


def test_a_worker_on_a_new_connection_goes_on_with_what_it_has() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))
    machine.start(1)

    inventory = (held(1, 1, "finished"), held(2, 1, "running"))
    machine.say(b"again", a_greet(inventory=inventory, max_jobs=1, greeting=1))

    assert machine.states(1, 2, 3) == ["running", "assigned", "queued"]
    assert an_id(2) in machine.ledger().leases


def test_f05_a_broker_that_was_killed_asks_for_all_of_a_train() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3, 4))
    machine.restart()
    machine.say(CLIENT, a_hello())

    inventory = (held(1, 1, "finished"), held(2, 1, "running"))
    machine.join(0, 1000, inventory=inventory, max_jobs=1)

    assert machine.states(1, 2, 3, 4) == ["assigned", "assigned", "queued", "queued"]
    machine.finish(1)
    machine.finish(2)
    assert machine.states(1, 2, 3, 4) == ["succeeded", "succeeded", "assigned", "queued"]


def test_what_ended_in_a_train_is_told_again_after_a_restart() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    returned(machine, 1, 2)
    machine.restart()

    machine.say(CLIENT, a_hello())

    told = [one.outcomes[0].job_id for one in machine.sent(wire.Ended)]
    assert sorted(told)[:2] == [an_id(1), an_id(2)]
    assert machine.disk.result(an_id(2)) == b"value 2"


def test_the_same_calls_again_are_the_same_jobs() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    numbers = [machine.job(one).number for one in (1, 2)]

    machine.say(CLIENT, calls(1, 2, 3))

    (accepted,) = machine.sent(wire.Accepted)
    assert [one.number for one in accepted.jobs][:2] == numbers
    assert machine.core.book.numbers == numbers[-1] + 1


def test_f52_another_payload_under_the_same_id_is_refused() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))

    machine.say(CLIENT, replace(calls(1, 2), payloads=(b"1", b"other")))

    assert [one.job_ids for one in machine.sent(wire.Refused)] == [ids(2)]


def test_calls_of_which_not_all_fit_are_taken_one_by_one() -> None:
    machine = Machine(1000, settings=Settings(most_jobs=2))

    machine.say(CLIENT, calls(1, 2, 3))

    assert [one.job_ids for one in machine.sent(wire.Refused)] == [ids(3)]
    assert len(machine.sent(wire.Accepted)[0].jobs) == 2


def test_calls_with_something_special_are_taken_one_by_one() -> None:
    machine = a_machine()

    machine.say(CLIENT, calls(1, 2, begin_s=60.0))

    assert len(machine.sent(wire.Accepted)[0].jobs) == 2
    assert all(machine.job(one).gated for one in (1, 2))


def test_a_client_that_attached_hears_of_a_call_too() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    machine.say(OTHER, a_hello(901))
    machine.say(OTHER, wire.Attach((an_id(2),)))

    returned(machine, 1, 2)

    assert [one.outcomes[0].job_id for one in machine.sent(wire.Ended, OTHER)] == [an_id(2)]


def test_a_client_that_is_away_gets_the_values_when_it_is_back() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    machine.core.disconnected(CLIENT, machine.now)

    returned(machine, 1, 2)
    assert not machine.sent(wire.Values)
    machine.say(b"again", a_hello())

    told = [one.outcomes[0].job_id for one in machine.sent(wire.Ended, b"again")]
    assert set(ids(1, 2)) <= set(told)


def test_a_client_of_the_protocol_before_is_told_one_by_one() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))
    machine.say(CLIENT, a_hello(protocol=wire.PROTOCOL_BEFORE))

    returned(machine, 1, 2)

    assert not machine.sent(wire.Values)
    assert len(machine.sent(wire.Ended, CLIENT)) == 2


def test_the_death_of_the_client_ends_its_trains() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))

    machine.lose(SESSION)

    (end,) = machine.sent(wire.End)
    assert {one.job_id for one in end.attempts} == set(ids(1, 2, 3))


def test_what_many_calls_needed_is_let_go_with_the_last() -> None:
    machine = a_machine()
    blob = wire.Blobs((BLOB,))
    machine.say(CLIENT, blob)
    machine.say(CLIENT, calls(1, 2, function=BLOB.digest))
    returned(machine, 1, 2)

    machine.core.book.blobs.forget(SESSION)

    assert BLOB.digest not in machine.core.book.blobs


def test_a_longer_train_is_earned_and_lost() -> None:
    key, granted = ("fit", ()), Credits()

    assert granted.of(key, 0.0) == FIRST_CREDITS
    for _ in range(10):
        granted.went_well(key)
    assert granted.of(key, 0.0) == MOST_CREDITS
    for _ in range(5):
        granted.came_back(key, 1.0)
    assert granted.of(key, 2.0) == 0
    assert granted.of(key, 1.0 + DOUBT_S) > 0


def test_results_of_an_older_attempt_do_not_count() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2))

    returned(machine, 1, 2, attempts=(1, 9))

    assert machine.states(1, 2) == ["succeeded", "assigned"]
    assert "ignored the result of an abandoned attempt" in machine.notes()


def test_a_worker_is_asked_for_what_has_not_begun_when_the_queue_is_paused() -> None:
    machine = a_machine()
    machine.say(CLIENT, calls(1, 2, 3))

    machine.say(CLIENT, wire.Pause(paused=True))
    assert machine.sent(wire.Recall, worker(0)) == [wire.Recall(machine.epoch)]
    back = (AttemptId(an_id(2), 1), AttemptId(an_id(3), 1))
    machine.say(worker(0), wire.GivenBack(machine.epoch, back))

    assert [machine.job(one).state for one in (2, 3)] == [State.QUEUED] * 2
