"""Answers on their way to peers: those that are too large, or cannot be said at all."""

from collections.abc import Iterator

import pytest
import zmq
from loguru import logger

from broker.outbox import Outbox
from grn_zmq import wire
from grn_zmq.records import Blob, Numbered
from tests.broker.machine import CLIENT, Machine
from tests.builders import a_spec, an_id

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


@pytest.mark.parametrize(
    "unsayable",
    [
        wire.Accepted(tuple(Numbered(an_id(n), n) for n in range(30_000))),
        wire.Refused("bad-request", "a\ud800", ()),
        wire.Accepted((Numbered(an_id(1), 2**70),)),
    ],
    ids=["too large", "no Unicode", "number beyond 64 bits"],
)
def test_an_answer_that_cannot_be_encoded_is_logged_and_others_are_sent(
    sockets: "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]", unsayable: wire.Message
) -> None:
    router, dealer = sockets
    outbox = Outbox(router)
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="ERROR")

    outbox.send(PEER, unsayable)
    outbox.send(PEER, wire.Want(("digest",)))

    logger.remove(sink)
    assert dealer.poll(ANSWER_MS)
    assert wire.decode(dealer.recv_multipart()) == wire.Want(("digest",))
    assert len(said) == 1
    assert "could not send an answer" in said[0]


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
