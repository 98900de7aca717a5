"""A broker that starts where another one died: everything that was accepted is there."""

from typing import Any

import pytest

from broker.jobs import Job
from grn_zmq import wire
from grn_zmq.records import Blob
from tests.broker.machine import CLIENT, SESSION, Machine, fetched, worker
from tests.builders import MIB, a_greet, a_hello, a_spec, an_id, held

FUNCTION = Blob("f" * 64, b"function")
# What a restart may change about a live job: that it runs its worker has to say again.
FORGOTTEN = {"state", "watchers", "begun", "started_at", "peak_bytes", "key"}
ENDED_KEEPS = ("number", "session", "digest", "attempt", "queued_at", "ended_at", "expired")


def facts(job: Job, names: Any) -> dict[str, object]:
    return {name: getattr(job, name) for name in names}


def all_but_forgotten(job: Job) -> dict[str, object]:
    return facts(job, set(Job.__slots__) - FORGOTTEN)


def test_a_queued_job_is_queued_with_all_it_had() -> None:
    machine = Machine()
    options = {"timeout_s": 60.0, "retries": 2, "retry_on": ("lost",), "by": {"n": 1}}
    machine.submit(a_spec(1, detached=True, priority=3, memory_bytes=5 * MIB, **options))
    machine.commit()
    before = all_but_forgotten(machine.job(1))

    machine.crash()

    assert all_but_forgotten(machine.job(1)) == before
    assert machine.states(1) == ["queued"]


def test_a_placed_job_keeps_its_place_and_its_promise() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1))
    machine.start(1)
    lease = machine.lease(1)
    machine.commit()
    before = all_but_forgotten(machine.job(1))

    machine.crash()
    assert all_but_forgotten(machine.job(1)) == before
    machine.say(worker(0), a_greet(0, 1000, inventory=(held(1),)))

    assert machine.lease(1).lease_bytes == lease.lease_bytes
    assert machine.job(1).device == "host:0"


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "killed", "timed-out"])
def test_an_ended_job_has_ended_the_same_way(outcome: str) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, outcome=outcome, payload=b"value", last_lines="bye")
    machine.commit()
    before, told = facts(machine.job(1), ENDED_KEEPS), machine.outcome(1)

    machine.crash()

    assert facts(machine.job(1), ENDED_KEEPS) == before
    assert (machine.outcome(1), machine.states(1)) == (told, [outcome])
    assert machine.core.book.result_bytes == len(b"value")


def test_a_result_that_was_let_go_stays_so() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)
    machine.say(CLIENT, wire.Received((an_id(1),)))
    machine.wait(60.0)
    machine.restart()
    machine.say(CLIENT, a_hello())
    assert machine.sent(wire.Ended) == []

    machine.say(CLIENT, wire.Attach((an_id(1),)))

    assert [one.reason for one in machine.sent(wire.Refused)] == ["result-expired"]


def test_numbers_go_on() -> None:
    machine = Machine()
    machine.submit(a_spec(1), a_spec(2))
    machine.restart()
    machine.say(CLIENT, a_hello())

    machine.submit(a_spec(3))

    assert [machine.job(one).number for one in (1, 2, 3)] == [1, 2, 3]


def test_jobs_are_kept_in_the_order_of_their_numbers_whenever_their_blobs_come() -> None:
    machine = Machine()
    machine.submit(a_spec(1, function=FUNCTION.digest))
    machine.submit(a_spec(2))
    machine.commit()

    machine.say(CLIENT, wire.Blobs((FUNCTION,)))
    machine.commit()

    assert [machine.job(one).number for one in (1, 2)] == [3, 2]
    assert [one.number for one in machine.disk.tables.jobs.values()] == [2, 3]


def test_what_was_not_accepted_is_not_there() -> None:
    machine = Machine()
    machine.submit(a_spec(1, function=FUNCTION.digest))

    machine.restart()

    assert not machine.core.book.jobs


def test_f01_a_broker_that_dies_before_the_commit_has_promised_nothing() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.crash()
    machine.say(CLIENT, a_hello())

    machine.submit(a_spec(1))
    machine.commit()

    assert len(machine.core.book.jobs) == len(machine.disk.tables.jobs) == 1


def test_blobs_are_there_for_the_jobs_that_need_them_and_no_longer() -> None:
    machine = Machine()
    machine.say(CLIENT, wire.Blobs((FUNCTION, Blob("g" * 64, b"unused"))))
    machine.submit(a_spec(1, function=FUNCTION.digest, detached=True))
    machine.restart()
    assert machine.core.book.blobs.get(FUNCTION.digest) == FUNCTION
    assert "g" * 64 not in machine.core.book.blobs

    machine.join(0, 1000)
    assert machine.sent(wire.Blobs) == [wire.Blobs((FUNCTION,))]
    assert fetched(machine.effects) == [(an_id(1),)]
    machine.run(1)
    machine.restart()
    assert machine.core.book.blobs.get(FUNCTION.digest) == FUNCTION  # for another try
    machine.say(CLIENT, a_hello())
    machine.say(CLIENT, wire.Clean((an_id(1),)))
    machine.commit()

    assert machine.disk.tables.blobs == {}


def test_what_was_learned_is_there() -> None:
    machine = Machine(1000)
    machine.know(100)
    lease_bytes = lease_of_next(machine, 1)
    machine.finish(1)
    machine.restart()
    machine.say(CLIENT, a_hello())
    machine.join(0, 1000)

    assert lease_of_next(machine, 2) == pytest.approx(lease_bytes, rel=0.05)


def lease_of_next(machine: Machine, number: int) -> int:
    machine.submit(a_spec(number))
    return machine.lease(number).lease_bytes


def test_parents_still_wait_for_their_children() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(a_spec(2, parent=an_id(1)), a_spec(3, parent=an_id(1), detached=True))
    machine.restart()

    assert machine.job(1).waiting_children == 1
    assert machine.job(1).submitted_jobs
    machine.say(CLIENT, a_hello())
    machine.say(CLIENT, wire.Cancel((an_id(2),), interrupt=False))
    machine.core.check()


def test_clients_with_attached_jobs_are_away_and_watched() -> None:
    machine = Machine()
    machine.submit(a_spec(1))

    machine.restart()

    session = machine.core.book.sessions[SESSION]
    assert (session.peer, session.pid) == (b"", 900)
    assert machine.job(1).watchers == (SESSION,)


def test_a_second_restart_changes_nothing() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, detached=True), a_spec(3, retries=1))
    machine.start(1)
    machine.restart()
    once = {one: all_but_forgotten(job) for one, job in machine.core.book.jobs.items()}

    machine.restart()

    assert {one: all_but_forgotten(job) for one, job in machine.core.book.jobs.items()} == once


def test_the_oldest_ended_job_is_the_first_to_be_forgotten() -> None:
    machine = Machine()
    machine.submit(a_spec(1), a_spec(2))
    for number in (2, 1):
        machine.say(CLIENT, wire.Cancel((an_id(number),), interrupt=False))

    machine.restart()

    assert list(machine.core.book.ended) == [an_id(2), an_id(1)]


def test_only_batches_with_detached_jobs_are_durable() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    assert not machine.core.take_batch().durable
    machine.submit(a_spec(2, detached=True))
    assert machine.core.take_batch().durable

    machine.wait(1.0)

    assert machine.core.take_batch().empty
