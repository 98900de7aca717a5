"""What worker and job process say to each other about the calls of a train.

    worker -> job    the header of its first call, and in `train` what differs, in columns
                     + function and arguments + stdout, stderr, answers, tokens, marks
                     {"go": true} after each answer that says that something was printed
    job -> worker    one answer per call, through the pipe for answers

Before each call the job process takes a token. The tokens are in a semaphore of the kernel that
both sides hold: whoever takes back what has not begun takes its tokens, and needs no answer.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgpack

# How many descriptors come with a packet: stdout, stderr, answers, tokens, marks.
PACKET_FDS: Final = 5

# Each job process has a page of its own in the file of marks, which it alone maps.
MARK_BYTES: Final = mmap.PAGESIZE
_MARK: Final = struct.Struct("=Q")
_TRAIN_BITS: Final = 32

# The lengths of header and body, and how long the call took; no header if it plainly returned.
_ANSWER: Final = struct.Struct("=IId")


class Calls(NamedTuple):
    """The calls of one packet, each column by itself.

    `train` is the number of their train in the life of its worker, `first` the place of the
    first of them in it, `slot` whose page of marks is theirs.
    """

    train: int
    first: int
    slot: int
    job_ids: list[str]
    attempts: list[int]
    numbers: list[int]
    sizes: list[int]


def calls_in(header: Mapping[str, object]) -> Calls | None:
    """Give the calls of a packet; None if it is none of a train."""
    told = header.get("train")
    return Calls(*told) if isinstance(told, list) else None


def mark(train: int, begun: int) -> int:
    """Say that so many of this train have begun."""
    return train << _TRAIN_BITS | begun


def mark_in(page: bytes) -> tuple[int, int]:
    """Give the train that a page of marks is about, and how many of its calls have begun."""
    (value,) = _MARK.unpack_from(page)
    return value >> _TRAIN_BITS, value & (1 << _TRAIN_BITS) - 1


class Answer(NamedTuple):
    """How one call ended; without `header` it returned what `body` has, and all is well."""

    run_s: float
    header: dict[str, object] | None
    body: bytes


def plain_answer(run_s: float, body: bytes) -> bytes:
    """Say that a call returned this, and that nothing else is to be said of it."""
    return _ANSWER.pack(0, len(body), run_s) + body


def full_answer(run_s: float, header: dict[str, object], body: bytes) -> bytes:
    """Say how a call ended."""
    packed = msgpack.packb(header, unicode_errors="surrogatepass")
    return b"".join([_ANSWER.pack(len(packed), len(body), run_s), packed, body])


class Answers:
    """Takes answers out of bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[Answer]:
        """Give the answers that are whole by now.

        Raises:
            ValueError: These are no answers: the user's code wrote to our pipe.
        """
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        self._rest = b""
        while end - at >= _ANSWER.size:
            packed, length, run_s = _ANSWER.unpack_from(data, at)
            start = at + _ANSWER.size
            if start + packed + length > end:
                break
            at = start + packed + length
            header = _header(data[start : start + packed]) if packed else None
            yield Answer(run_s, header, data[start + packed : at])
        self._rest = data[at:]


def _header(packed: bytes) -> dict[str, object]:
    header = msgpack.unpackb(packed, unicode_errors="surrogatepass")
    if not isinstance(header, dict):
        raise ValueError("the header of an answer is not a map")
    return header
