"""Greeting and submitting: what is taken, once, and what is refused."""

from typing import Any

import pytest

from broker.effects import Watch
from grn_zmq import wire
from grn_zmq.records import Blob, JobSpec, Numbered
from tests.broker.machine import (
    CLIENT,
    EPOCH,
    SESSION,
    Machine,
    fetched,
    sent,
    worker,
)
from tests.builders import a_greet, a_hello, a_piece, a_report, a_result, a_spec, an_id

OTHER = b"other client"
FUNCTION, CONTEXT = Blob("f" * 64, b"function"), Blob("c" * 64, b"context")


def a_machine_with_two_clients(*totals: int) -> Machine:
    machine = Machine(*(totals or (1000,)))
    machine.say(OTHER, a_hello(901))
    return machine


def shipped(number: int, **changes: Any) -> JobSpec:
    return a_spec(number, function=FUNCTION.digest, context=CONTEXT.digest, **changes)


def test_a_client_is_welcomed_and_watched() -> None:
    machine = Machine()

    effects = machine.say(OTHER, a_hello(901))

    assert Watch(an_id(901), 901) in effects
    assert machine.sent(wire.Welcome, OTHER) == [wire.Welcome(wire.PROTOCOL, EPOCH, 77)]


@pytest.mark.parametrize("greeting", [a_hello(901, protocol=99), a_greet(protocol=99)])
def test_another_version_of_the_protocol_is_refused(greeting: wire.Message) -> None:
    machine = Machine()

    machine.say(OTHER, greeting)

    (refused,) = machine.sent(wire.Refused, OTHER)
    assert refused.reason == "version"
    assert refused.text == f"this broker speaks protocol {wire.PROTOCOL}, you speak 99"
    machine.say(OTHER, wire.AskDevices())
    assert machine.sent(wire.Refused)[0].reason == "greet-first"


@pytest.mark.parametrize(
    "message",
    [wire.AskDevices(), wire.Submit((a_spec(1),)), a_report(), wire.Finished(1, (a_result(),))],
)
def test_a_stranger_must_greet_first(message: wire.Message) -> None:
    machine = Machine(1000)

    machine.say(b"stranger", message)

    assert [one.reason for one in machine.sent(wire.Refused, b"stranger")] == ["greet-first"]
    assert machine.core.book.jobs == {}


@pytest.mark.parametrize(
    "message",
    [
        wire.Finished(EPOCH, (a_result(1),)),
        wire.Started(()),
        a_report(foreign_bytes=1),
        wire.Output((a_piece(1),)),
        wire.Want(()),
        wire.Welcome(1, 1, 1),
        wire.Assign(EPOCH, ()),
    ],
)
def test_r106_messages_of_workers_are_refused_from_a_client(message: wire.Message) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(CLIENT, message)

    assert [one.reason for one in machine.sent(wire.Refused, CLIENT)] == ["bad-request"]
    assert machine.states(1) == ["assigned"]
    assert machine.ledger().foreign_bytes == 0


@pytest.mark.parametrize(
    "message", [wire.Submit((a_spec(1),)), wire.Cancel((), interrupt=False), wire.AskDevices()]
)
def test_messages_of_clients_are_refused_from_a_worker(message: wire.Message) -> None:
    machine = Machine(1000)

    machine.say(worker(0), message)

    assert [one.reason for one in machine.sent(wire.Refused, worker(0))] == ["bad-request"]
    assert machine.core.book.jobs == {}


def test_accepted_jobs_are_numbered_in_order() -> None:
    machine = Machine()

    machine.submit(a_spec(5), a_spec(3))

    assert machine.sent(wire.Accepted, CLIENT) == [
        wire.Accepted((Numbered(an_id(5), 1), Numbered(an_id(3), 2)))
    ]


def test_a_repeated_submission_is_one_job() -> None:
    machine = Machine(1000)
    for _ in range(3):
        machine.submit(a_spec(1), a_spec(1))
        answer = wire.Accepted((Numbered(an_id(1), 1),) * 2)
        assert machine.sent(wire.Accepted) == [answer]
    machine.run(1)

    machine.submit(a_spec(1))

    assert machine.sent(wire.Accepted) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert len(machine.runs()) == 1
    assert len(machine.core.book.jobs) == 1


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("change", [{"payload": b"other"}, {"name": "other"}, {"by": {"n": 1}}])
def test_an_id_that_is_taken_by_another_job_is_refused(
    change: dict[str, Any], ended: bool
) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    if ended:
        machine.run(1)

    machine.submit(a_spec(1, **change), a_spec(2))

    (refused,) = machine.sent(wire.Refused, CLIENT)
    assert (refused.reason, refused.job_ids) == ("id-conflict", (an_id(1),))
    assert machine.sent(wire.Accepted) == [wire.Accepted((Numbered(an_id(2), 2),))]
    assert machine.job(1).spec.name == "fit"


def test_arguments_that_the_journal_has_are_not_in_memory() -> None:
    machine = Machine()
    machine.submit(a_spec(1, payload=b"x" * 1000))

    batch = machine.core.take_batch()

    assert [one.spec.payload for one in batch.jobs] == [b"x" * 1000]
    assert machine.job(1).spec.payload == b""
    machine.join(0, 1000)
    assert [one.payload for one in machine.runs()] == [b""]
    assert fetched(machine.effects) == [(an_id(1),)]


def test_a_job_waits_for_its_blobs_and_is_accepted_when_they_are_here() -> None:
    machine = Machine(1000)
    machine.submit(shipped(1))
    assert machine.sent(wire.Want, CLIENT) == [wire.Want((CONTEXT.digest, FUNCTION.digest))]
    assert machine.sent(wire.Accepted) == []
    assert machine.why(1) == "waiting for its function to arrive"

    machine.say(CLIENT, wire.Blobs((FUNCTION,)))
    assert machine.placed(1) == [False]

    machine.say(CLIENT, wire.Blobs((CONTEXT,)))
    assert machine.sent(wire.Accepted, CLIENT) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert machine.placed(1) == [True]


def test_blobs_reach_the_worker_once_and_before_the_run() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1))
    to_worker = [type(one) for one in sent(machine.effects, object, worker(0))]
    assert to_worker == [wire.Blobs, wire.Blobs, wire.Assign]
    machine.run(1)

    machine.submit(shipped(2))

    assert machine.sent(wire.Blobs, worker(0)) == []


def test_a_worker_that_lost_a_blob_is_given_it_again() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1))

    machine.say(worker(0), wire.Want((FUNCTION.digest, "unknown")))

    given = [one.blobs for one in machine.sent(wire.Blobs, worker(0))]
    assert [blob for blobs in given for blob in blobs] == [FUNCTION]


def test_a_blob_that_another_client_sends_lets_the_owner_of_the_job_know() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1, function=FUNCTION.digest, detached=True))

    machine.say(OTHER, wire.Blobs((FUNCTION,)))

    assert machine.sent(wire.Accepted, CLIENT) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert machine.sent(wire.Accepted, OTHER) == []


def test_blobs_go_when_neither_client_nor_job_needs_them() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1, detached=True))

    machine.lose(SESSION)
    assert len(machine.core.book.blobs) == 2

    machine.run(1)
    assert len(machine.core.book.blobs) == 2  # for another try
    machine.say(b"other", a_hello(901))
    machine.say(b"other", wire.Clean((an_id(1),)))
    assert len(machine.core.book.blobs) == 0
