"""The worker's connection: what jobs print is gathered, and stays ahead of what follows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from grn_zmq import wire
from tests.builders import a_greet, a_piece, a_report, a_result
from tests.waiting import PATIENCE, until
from workers.broker_link import KEPT_OUTPUT_BYTES, MAX_OUTPUT_BYTES, BrokerLink


class Wired:
    """A link, and the other end of it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.RCVTIMEO, int(5000 * PATIENCE))
        self._socket.bind(address)
        self.link = BrokerLink(lambda: address)
        until(self.link.look)
        self.link.open = True

    def heard(self) -> list[wire.Message]:
        """What has been sent so far, in order."""
        self.link.send(wire.Want(("the last",)))
        messages: list[wire.Message] = []
        while not messages or messages[-1] != wire.Want(("the last",)):
            messages.append(wire.decode(self._socket.recv_multipart()[1:]))
        return messages[:-1]

    def restart(self) -> None:
        """Be gone, and there again."""
        self._socket.close()
        until(lambda: self.link.look() is False)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.RCVTIMEO, int(5000 * PATIENCE))
        self._socket.bind(self._address)
        until(self.link.look)

    def close(self) -> None:
        self.link.close()
        self._socket.close()
        self._context.term()


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    wired = Wired(f"ipc://{tmp_path}/link")
    yield wired
    wired.close()


def test_what_is_said_in_one_turn_is_one_message(wired: Wired) -> None:
    pieces = (a_piece(1), a_piece(2), a_piece(1, stream="stderr"))
    for piece in pieces:
        wired.link.say(piece)
    wired.link.flush()
    wired.link.say(a_piece(3))
    wired.link.flush()

    assert wired.heard() == [wire.Output(pieces), wire.Output((a_piece(3),))]


def test_what_a_job_printed_comes_before_its_end(wired: Wired) -> None:
    finished = wire.Finished(7, (a_result(1),))
    wired.link.say(a_piece(1))
    wired.link.say(a_piece(2))
    wired.link.send(finished)
    wired.link.say(a_piece(2, data=b"more"))
    wired.link.flush()

    assert wired.heard() == [
        wire.Output((a_piece(1), a_piece(2))),
        finished,
        wire.Output((a_piece(2, data=b"more"),)),
    ]


def test_nothing_is_sent_where_nothing_was_said(wired: Wired) -> None:
    wired.link.flush()
    wired.link.send(a_report())

    assert wired.heard() == [a_report()]


def test_a_message_has_at_most_so_much_output(wired: Wired) -> None:
    half, rest = a_piece(data=bytes(MAX_OUTPUT_BYTES // 2)), a_piece(data=b"x")
    for piece in (half, half, rest):
        wired.link.say(piece)
    wired.link.flush()

    assert wired.heard() == [wire.Output((half, half)), wire.Output((rest,))]


def test_a_message_has_at_most_so_many_pieces(wired: Wired) -> None:
    for _ in range(wire.MAX_JOBS_PER_MESSAGE + 1):
        wired.link.say(a_piece())
    wired.link.flush()

    messages = [one for one in wired.heard() if isinstance(one, wire.Output)]
    assert [len(one.pieces) for one in messages] == [wire.MAX_JOBS_PER_MESSAGE, 1]


def test_while_no_broker_listens_the_last_output_is_kept_and_nothing_ever_blocks(
    wired: Wired,
) -> None:
    wired.link.open = False
    pieces = [a_piece(number, data=bytes(100 << 10)) for number in range(30)]
    for piece in pieces:
        wired.link.say(piece)
        wired.link.flush()
    assert not wired.link.full
    assert wired.link.idle

    wired.link.open = True

    heard = [one for one in wired.heard() if isinstance(one, wire.Output)]
    kept = [piece for message in heard for piece in message.pieces]
    assert kept == pieces[-(KEPT_OUTPUT_BYTES // (100 << 10)) :]
    assert all(
        sum(len(one.data) for one in message.pieces) <= MAX_OUTPUT_BYTES for message in heard
    )


def test_what_was_meant_for_one_broker_never_reaches_the_next(wired: Wired) -> None:
    wired.restart()
    assert not wired.link.open
    wired.link.say(a_piece(1))
    wired.link.greet(a_greet())
    wired.link.open = True

    assert wired.heard() == [a_greet(), wire.Output((a_piece(1),))]


def test_a_greeting_replaces_what_waits_to_be_sent(tmp_path: Path) -> None:
    link = BrokerLink(lambda: None)
    for _ in range(1000):
        link.send(a_report())

    link.greet(a_greet())

    assert (link.look(), link.idle, link.full) == (None, True, False)
    link.close()
