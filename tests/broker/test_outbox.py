"""Answers on their way to peers: those that are too large, or cannot be said at all."""

from collections.abc import Iterator

import pytest
import zmq
from loguru import logger

from broker.outbox import Outbox
from grn_zmq import wire
from grn_zmq.records import Begun, Blob, Numbered
from tests.broker.machine import CLIENT, Machine
from tests.builders import a_spec, an_id, an_outcome

ANSWER_MS = 5000
PEER = b"peer"
FUNCTION = Blob("f" * 64, b"function")


@pytest.fixture
def sockets() -> Iterator["tuple[zmq.Socket[bytes], zmq.Socket[bytes]]"]:
    """The broker's socket and that of one peer."""
    with zmq.Context() as context:
        with context.socket(zmq.ROUTER) as router, context.socket(zmq.DEALER) as dealer:
            router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            dealer.setsockopt(zmq.ROUTING_ID, PEER)
            router.bind("inproc://outbox")
            dealer.connect("inproc://outbox")
            dealer.send(b"here")
            router.recv_multipart()
            yield router, dealer


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What was logged for somebody to act on."""
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="ERROR")
    yield said
    logger.remove(sink)


def heard(dealer: "zmq.Socket[bytes]") -> wire.Message:
    assert dealer.poll(ANSWER_MS)
    return wire.decode(dealer.recv_multipart())


def test_what_nobody_waits_for_and_cannot_be_encoded_is_logged_and_others_are_sent(
    sockets: "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]", errors: list[str]
) -> None:
    router, dealer = sockets
    outbox = Outbox(router)

    outbox.send(PEER, wire.Refused("bad-request", "a\ud800", ()))
    outbox.send(PEER, wire.Want(("digest",)))

    assert heard(dealer) == wire.Want(("digest",))
    assert len(errors) == 1
    assert "could not send an answer" in errors[0]


@pytest.mark.parametrize(
    ("unsayable", "job_ids"),
    [
        (wire.Accepted((Numbered(an_id(1), 2**70),)), (an_id(1),)),
        (wire.Started((Begun(an_id(3), 1, "\ud800", False, {}),)), (an_id(3),)),
        (wire.Ended((an_outcome(2, peak_bytes=2**70),)), (an_id(2),)),
        (wire.Forgotten(2**70), ()),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_who_waits_for_an_answer_that_cannot_be_encoded_is_told_so(
    sockets: "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]",
    errors: list[str],
    unsayable: wire.Message,
    job_ids: tuple[str, ...],
) -> None:
    router, dealer = sockets

    Outbox(router).send(PEER, unsayable)

    answer = heard(dealer)
    assert isinstance(answer, wire.Refused)
    assert (answer.reason, answer.job_ids) == ("internal", job_ids)
    assert unsayable.kind in answer.text
    assert len(errors) == 1


def test_an_answer_too_large_for_a_message_is_refused_in_several(
    sockets: "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]", errors: list[str]
) -> None:
    router, dealer = sockets
    refused: list[str] = []

    Outbox(router).send(
        PEER, wire.Accepted(tuple(Numbered(an_id(n), n) for n in range(30_000)))
    )

    while len(refused) < 30_000:
        answer = heard(dealer)
        assert isinstance(answer, wire.Refused)
        refused += answer.job_ids
    assert refused == [an_id(n) for n in range(30_000)]


def test_jobs_that_ended_beside_one_that_cannot_be_told_are_told(
    sockets: "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]", errors: list[str]
) -> None:
    router, dealer = sockets
    fine, broken = an_outcome(1), an_outcome(2, peak_bytes=2**70)

    Outbox(router).send(PEER, wire.Ended((fine, broken)))

    assert heard(dealer) == wire.Ended((fine,))
    answer = heard(dealer)
    assert isinstance(answer, wire.Refused)
    assert answer.job_ids == (broken.job_id,)


def test_all_jobs_that_waited_for_one_blob_are_accepted_in_messages_that_can_be_read() -> None:
    machine = Machine(1000)
    for first in range(0, 5000, wire.MAX_JOBS_PER_MESSAGE):
        numbers = range(first, min(5000, first + wire.MAX_JOBS_PER_MESSAGE))
        machine.submit(*(a_spec(n, function=FUNCTION.digest) for n in numbers))

    machine.say(CLIENT, wire.Blobs((FUNCTION,)))

    answers = machine.sent(wire.Accepted, CLIENT)
    read = [wire.decode(wire.encode(answer)) for answer in answers]
    assert read == answers
    assert [one.job_id for answer in answers for one in answer.jobs] == [
        an_id(n) for n in range(5000)
    ]
