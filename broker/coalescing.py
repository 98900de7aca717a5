"""What goes to one peer in one turn of the loop, in as few messages as will do. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from grn_zmq import wire

from .effects import Peer, Send

# By kind: the field whose items may travel together. Whatever else a message has must be equal.
_ITEMS: Final[dict[type, str]] = {
    wire.Started: "runs",
    wire.Ended: "outcomes",
    wire.Accepted: "jobs",
    wire.Recorded: "attempts",
    wire.Output: "pieces",
}
# Values and what was printed may be large, and a message has a limit.
_MOST_BYTES: Final = 4 << 20
_MOST_ITEMS: Final = 1000


def coalesced(sends: Sequence[Send]) -> list[Send]:
    """Put neighbours of one kind to one peer together; the order for each peer stays."""
    by_peer: dict[Peer, list[Send]] = {}
    for send in sends:
        by_peer.setdefault(send.peer, []).append(send)
    return [one for theirs in by_peer.values() for one in _joined(theirs)]


def _joined(sends: list[Send]) -> list[Send]:
    found: list[Send] = []
    group: list[Send] = []
    count = size = 0
    for send in sends:
        more, larger = _count(send.message), _size(send.message)
        full = count + more > _MOST_ITEMS or size + larger > _MOST_BYTES
        if group and (full or not _fits(group[0], send)):
            found.append(_together(group))
            group, count, size = [], 0, 0
        group.append(send)
        count, size = count + more, size + larger
    return [*found, _together(group)]


def _fits(first: Send, other: Send) -> bool:
    """Whether two messages differ in nothing but their items."""
    kind = type(first.message)
    if kind not in _ITEMS or type(other.message) is not kind or first.fetch or other.fetch:
        return False
    same = first.protocol == other.protocol
    return same and getattr(first.message, "epoch", 0) == getattr(other.message, "epoch", 0)


def _together(group: list[Send]) -> Send:
    first = group[0]
    if len(group) == 1:
        return first
    kind: Any = type(first.message)
    items = tuple([item for one in group for item in getattr(one.message, _ITEMS[kind])])
    fixed = (first.message.epoch,) if isinstance(first.message, wire.Recorded) else ()
    return Send(first.peer, kind(*fixed, items), (), first.protocol)


def _count(message: wire.Message) -> int:
    items = _ITEMS.get(type(message))
    return len(getattr(message, items)) if items else 1


def _size(message: wire.Message) -> int:
    match message:
        case wire.Ended(outcomes):
            return sum(len(one.payload) for one in outcomes)
        case wire.Output(pieces):
            return sum(len(one.data) for one in pieces)
    return 0
