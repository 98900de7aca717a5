"""What goes to one peer in one turn travels together, and nothing else changes."""

from loguru import logger

from broker.coalescing import coalesced
from broker.effects import Note, Send
from broker.telling import BURST, PER_SECOND, Telling
from grn_zmq import wire
from grn_zmq.records import Begun, Numbered
from tests.builders import an_attempt, an_id, an_outcome

ONE, TWO = b"one", b"two"


def accepted(number: int) -> wire.Accepted:
    return wire.Accepted((Numbered(an_id(number), number),))


def ended(number: int, size: int = 1) -> wire.Ended:
    return wire.Ended((an_outcome(number, payload=b"x" * size),))


def test_neighbours_of_one_kind_to_one_peer_travel_together() -> None:
    sends = [Send(ONE, accepted(1)), Send(TWO, accepted(2)), Send(ONE, accepted(3))]

    first, second = coalesced(sends)

    assert first == Send(ONE, wire.Accepted((*accepted(1).jobs, *accepted(3).jobs)))
    assert second == sends[1]


def test_the_order_for_a_peer_stays() -> None:
    begun = wire.Started((Begun(an_id(1), 1, "host:0", False, {}),))
    sends = [Send(ONE, one) for one in (accepted(1), begun, ended(1), accepted(2), ended(2))]

    assert coalesced(sends) == sends


def test_what_was_recorded_for_another_epoch_stays_apart() -> None:
    sends = [Send(ONE, wire.Recorded(epoch, (an_attempt(1),))) for epoch in (5, 5, 6)]

    assert [len(one.message.attempts) for one in coalesced(sends)] == [2, 1]  # type: ignore[union-attr]


def test_what_is_still_to_be_read_from_the_journal_travels_alone() -> None:
    sends = [Send(ONE, ended(1), (an_id(1),)), Send(ONE, ended(2), (an_id(2),))]

    assert coalesced(sends) == sends


def test_messages_stay_below_their_limits() -> None:
    large = [Send(ONE, ended(number, 3 << 20)) for number in range(3)]
    many = [Send(ONE, accepted(number)) for number in range(3000)]

    assert len(coalesced(large)) == 3
    sizes = [len(one.message.jobs) for one in coalesced(many)]  # type: ignore[union-attr]
    assert sum(sizes) == 3000
    assert max(sizes) <= 1000


def test_a_flood_of_notes_is_counted_and_warnings_are_not() -> None:
    now = 0.0
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(line.strip()), format="{message} {extra}")
    try:
        telling = Telling(lambda: now)
        for _ in range(BURST + 7):
            telling.tell(Note("ended", {"job": "a"}))
        telling.tell(Note("worker died", level="warning"))
        assert sum(line.startswith("ended") for line in lines) == BURST
        assert lines[-1].startswith("worker died")

        now = 1.0
        telling.tick()
        assert "'more': 7" in lines[-1]
        for _ in range(PER_SECOND + 1):
            telling.tell(Note("ended"))
        assert sum(line.startswith("ended") for line in lines) == BURST + 1 + PER_SECOND
    finally:
        logger.remove(sink)
