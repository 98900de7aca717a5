"""What a worker writes down of its attempts, and how it is read again. Pure.

A record is its length and checksum, the length of its header, the header, and the payload.
What a crash has cut off at the end, or a disk has spoilt, was not written: reading ends there.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from grn_zmq.codec import BadMessage, Codec
from grn_zmq.records import Result

_HEAD: Final = struct.Struct("!II")
_HEADER_LENGTH: Final = struct.Struct("!I")

Attempt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StartRecord:
    """This attempt is about to reach a job process: from here on it may have run."""

    kind: ClassVar[str] = "started"

    job_id: str
    attempt: int
    detached: bool


@dataclass(frozen=True, slots=True)
class FinishRecord:
    """This attempt has ended, and so."""

    kind: ClassVar[str] = "finished"

    detached: bool
    result: Result


@dataclass(frozen=True, slots=True)
class DropRecord:
    """The broker has taken over what there was of this attempt."""

    kind: ClassVar[str] = "recorded"

    job_id: str
    attempt: int


Record = StartRecord | FinishRecord | DropRecord

_codec: Final = Codec([StartRecord, FinishRecord, DropRecord])


@dataclass(frozen=True, slots=True)
class Left:
    """What earlier incarnations of a worker left: results, and attempts that may have run."""

    results: Mapping[Attempt, FinishRecord] = field(default_factory=dict)
    interrupted: Mapping[Attempt, StartRecord] = field(default_factory=dict)


def attempt_of(record: Record) -> Attempt:
    """The attempt that a record is about."""
    if isinstance(record, FinishRecord):
        return record.result.job_id, record.result.attempt
    return record.job_id, record.attempt


def is_durable(record: Record) -> bool:
    """Whether it must survive a power cut too."""
    return not isinstance(record, DropRecord) and record.detached


def encode(record: Record) -> bytes:
    """Give the bytes of one record."""
    header, *body = _codec.encode(record)
    content = b"".join([_HEADER_LENGTH.pack(len(header)), header, *body])
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def decode(data: bytes) -> Iterator[Record]:
    """Give the records of one log, up to the first that is not whole."""
    view, at = memoryview(data), 0
    while at + _HEAD.size <= len(view):
        length, checksum = _HEAD.unpack_from(view, at)
        content = view[at + _HEAD.size : at + _HEAD.size + length]
        at += _HEAD.size + length
        if at > len(view) or length < _HEADER_LENGTH.size or zlib.crc32(content) != checksum:
            return
        end = _HEADER_LENGTH.size + _HEADER_LENGTH.unpack_from(content)[0]
        frames = [bytes(content[_HEADER_LENGTH.size : end])]
        if end < len(content):
            frames.append(bytes(content[end:]))
        try:
            record: Record = _codec.decode(frames)
        except BadMessage:
            return  # a whole record that is none of ours: what follows means nothing to us
        yield record


def outstanding(records: Iterable[Record]) -> Left:
    """What of all these records is still to be answered for, whatever their order."""
    started: dict[Attempt, StartRecord] = {}
    finished: dict[Attempt, FinishRecord] = {}
    dropped: set[Attempt] = set()
    for record in records:
        match record:
            case StartRecord():
                started[attempt_of(record)] = record
            case FinishRecord():
                finished[attempt_of(record)] = record
            case DropRecord():
                dropped.add(attempt_of(record))
    results = {one: record for one, record in finished.items() if one not in dropped}
    ended = finished.keys() | dropped
    return Left(results, {one: record for one, record in started.items() if one not in ended})
