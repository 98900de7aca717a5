"""Messages of bounded size: as many items as one can carry, then the next."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from grn_zmq.codec import MAX_BODY_BYTES, MAX_HEADER_BYTES

T = TypeVar("T")

# What one message may name; see the limit of lists in `codec.py`.
IDS_PER_MESSAGE: Final = 1000

# What a character takes at most in UTF-8, and the numbers and short fields of one item.
_CHARACTER_BYTES: Final = 4
_ITEM_BYTES: Final = 512


def share_of_message(*texts: str, payload_bytes: int = 0) -> float:
    """The part of one message, at most, that an item with these texts and payload takes."""
    header = _ITEM_BYTES + _CHARACTER_BYTES * sum(map(len, texts))
    return header / MAX_HEADER_BYTES + payload_bytes / MAX_BODY_BYTES


def parts(items: Sequence[T], most: int) -> list[tuple[T, ...]]:
    """Split items of which `most` fit one message, whatever they are."""
    return [tuple(items[at : at + most]) for at in range(0, len(items), most)]


def batches(items: Iterable[tuple[T, float]], most: int) -> Iterator[list[T]]:
    """Split items, each with its share of a message; one that is too large goes alone."""
    batch: list[T] = []
    filled = 0.0
    for item, share in items:
        if batch and (len(batch) == most or filled + share > 1.0):
            yield batch
            batch, filled = [], 0.0
        batch.append(item)
        filled += share
    if batch:
        yield batch
