"""What a worker writes down of its attempts, and how it is read again. Pure.

A record is its length and checksum, the length of its header, the header, and the payload.
What a crash has cut off at the end, or a disk has spoilt, was not written: reading ends there.
"""

import struct
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from typing import Any, ClassVar, Final, TypeVar

from grn_zmq.codec import BadMessage, Codec
from grn_zmq.records import Result

_HEAD: Final = struct.Struct("!II")
_HEADER_LENGTH: Final = struct.Struct("!I")

Attempt = tuple[str, int]
R = TypeVar("R", bound="Record")


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


@dataclass(frozen=True, slots=True)
class TrainRecord:
    """These attempts are about to reach a job process, one after the other.

    Its page of marks (`slot`) tells how many of this train have begun: who has a place below
    that number.
    """

    kind: ClassVar[str] = "train"

    detached: bool
    slot: int
    train: int
    places: tuple[int, ...]
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReturnedRecord:
    """These attempts have returned values; nothing else is to be said of each."""

    kind: ClassVar[str] = "returned"

    detached: bool
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]
    run_s: tuple[float, ...]
    payloads: tuple[bytes, ...] = field(repr=False)
    peak_bytes: int
    utilisation: float
    seen: bool


@dataclass(frozen=True, slots=True)
class DropsRecord:
    """Of these attempts nothing is to be answered for: recorded, or given back unstarted."""

    kind: ClassVar[str] = "dropped"

    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]


Columns = TrainRecord | ReturnedRecord | DropsRecord
Record = StartRecord | FinishRecord | DropRecord | Columns
Start = StartRecord | TrainRecord
Finish = FinishRecord | ReturnedRecord

_codec: Final = Codec(
    [StartRecord, FinishRecord, DropRecord, TrainRecord, ReturnedRecord, DropsRecord]
)


@dataclass(frozen=True, slots=True)
class Left:
    """What earlier incarnations of a worker left: results, and attempts that may have run."""

    results: Mapping[Attempt, FinishRecord] = field(default_factory=dict)
    interrupted: Mapping[Attempt, StartRecord] = field(default_factory=dict)


def attempts_in(record: Record) -> list[Attempt]:
    """The attempts that a record is about."""
    match record:
        case FinishRecord(result=result):
            return [(result.job_id, result.attempt)]
        case StartRecord() | DropRecord():
            return [(record.job_id, record.attempt)]
    return list(zip(record.job_ids, record.attempts, strict=True))


def is_durable(record: Record) -> bool:
    """Whether it must survive a power cut too."""
    return not isinstance(record, DropRecord | DropsRecord) and record.detached


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


def begun_part(record: Record, marks: Mapping[int, tuple[int, int]]) -> Record:
    """Leave out of a train what has not begun, by the marks of whoever wrote this.

    A later train in the same slot tells that this one was over: who had begun has ended, and
    was written down before the next was let in. Without a mark all may have run.
    """
    if not isinstance(record, TrainRecord) or record.slot not in marks:
        return record
    train, begun = marks[record.slot]
    begun = begun if train == record.train else 0
    ids = zip(record.places, attempts_in(record), strict=True)
    return part_of(record, {attempt for place, attempt in ids if place < begun})


def part_of(record: R, attempts: Container[Attempt]) -> R:
    """Give a record with only these of its attempts."""
    if isinstance(record, StartRecord | FinishRecord | DropRecord):
        return record
    kept = [one in attempts for one in attempts_in(record)]
    if all(kept):
        return record
    columns: Any = {
        one.name: tuple(compress(value, kept))
        for one in fields(record)
        if isinstance(value := getattr(record, one.name), tuple)
    }
    return replace(record, **columns)


def outstanding(records: Iterable[Record]) -> Left:
    """What of all these records is still to be answered for, whatever their order."""
    started: dict[Attempt, StartRecord] = {}
    finished: dict[Attempt, FinishRecord] = {}
    dropped: set[Attempt] = set()
    for record in records:
        match record:
            case StartRecord() | TrainRecord():
                for job_id, attempt in attempts_in(record):
                    start = StartRecord(job_id, attempt, record.detached)
                    started[job_id, attempt] = start
            case FinishRecord() | ReturnedRecord():
                results = results_in(record).items()
                finished |= {one: FinishRecord(record.detached, r) for one, r in results}
            case DropRecord() | DropsRecord():
                dropped.update(attempts_in(record))
    results_left = {one: record for one, record in finished.items() if one not in dropped}
    ended = finished.keys() | dropped
    interrupted = {one: record for one, record in started.items() if one not in ended}
    return Left(results_left, interrupted)


def results_in(record: Finish) -> dict[Attempt, Result]:
    """Say of each attempt by itself how it ended."""
    if isinstance(record, FinishRecord):
        return {(record.result.job_id, record.result.attempt): record.result}
    rows = zip(record.job_ids, record.attempts, record.run_s, record.payloads, strict=True)
    return {
        (job_id, attempt): Result(
            job_id=job_id,
            attempt=attempt,
            outcome="succeeded",
            exit_status=None,
            signal=None,
            peak_bytes=record.peak_bytes,
            need_bytes=0,
            asked_bytes=0,
            utilisation=record.utilisation,
            mean_utilisation=record.utilisation,
            seen=record.seen,
            run_s=run_s,
            error_type="",
            error_text="",
            payload=payload,
        )
        for job_id, attempt, run_s, payload in rows
    }
