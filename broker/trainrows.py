"""Jobs that came, were placed or ended together as single rows of the state file, and back.

What they differ in stands in columns: ids of 16 bytes, numbers, times, lengths, and payloads
one behind the other. As every row, such a one ends with a checksum of all that is before it.
"""

import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final

from grn_zmq.records import JobSpec, Outcome

from .changes import Arrival, End, Life, NewTrain, Ride
from .rows import LIFE_FORM, BadRow, Form, Row, opened, packed_spec, sealed, spec_maker

# Of payloads longer than this together a row of their own is made: to read one of them, all
# of its row are read.
ROW_BYTES: Final = 1 << 20

_ID_BYTES: Final = 16
ARRIVAL_FORM: Final = Form(Outcome, "job_id", "outcome", "wait_s", "run_s", "payload")


def _ids_packed(job_ids: Sequence[str]) -> bytes:
    return bytes.fromhex("".join(job_ids))


def _ids_of(data: bytes) -> list[str]:
    text, digits = data.hex(), 2 * _ID_BYTES
    return [text[at : at + digits] for at in range(0, len(text), digits)]


def _packed(code: str, column: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(column)}{code}", *column)


def _column(code: str, data: bytes, count: int) -> tuple[Any, ...]:
    try:
        return struct.unpack(f"<{count}{code}", data)
    except struct.error:
        raise BadRow(f"a column of {len(data)} bytes for {count} jobs") from None


def portions(payloads: Sequence[bytes]) -> list[slice]:
    """Say which of them stand in one row together, so that no row is too long."""
    if sum(map(len, payloads)) <= ROW_BYTES:
        return [slice(0, len(payloads))]
    found, start, size = [], 0, 0
    for at, payload in enumerate(payloads):
        size += len(payload)
        if size > ROW_BYTES and at > start:
            found.append(slice(start, at))
            start, size = at, len(payload)
    return [*found, slice(start, len(payloads))]


class Parts:
    """Payloads that stand one behind the other."""

    def __init__(self, sizes: Sequence[int], data: bytes) -> None:
        self.sizes = sizes
        self.length = len(data)
        self._data = data
        self._ends = list(accumulate(sizes))
        if data and (not sizes or self._ends[-1] != len(data)):
            raise BadRow(f"{len(data)} bytes for {len(sizes)} payloads")

    def __getitem__(self, index: int) -> bytes:
        end = self._ends[index]
        return self._data[end - self.sizes[index] : end]


def first_life(spec: JobSpec) -> Life:
    """How a member of a train lives until something else is said of it."""
    return Life(
        spec.job_id, 0, "queued", priority=spec.priority, held=spec.held, was_gated=spec.held
    )


def train_row(new: NewTrain, portion: slice, uid: int, to_wall_s: float, boot: int) -> Row:
    """Give the row of a part of a train; `digests` are filled in once the payloads go."""
    payloads = new.payloads[portion]
    return sealed(
        new.number + portion.start,
        new.session,
        uid,
        float(new.queued_at),
        new.queued_at + to_wall_s,
        boot,
        *packed_spec(new.spec),
        _ids_packed(new.job_ids[portion]),
        _packed("I", list(map(len, payloads))),
        b"",
        b"".join(payloads),
    )


@dataclass(frozen=True, slots=True)
class TrainRow:
    """What was read of a train, or of a part of one."""

    values: Row = field(repr=False)
    number: int
    job_ids: list[str]
    payloads: Parts
    digests: bytes

    @property
    def when(self) -> Row:
        """When they were accepted: by our clock, by that on the wall, in which boot."""
        return self.values[3:6]

    @property
    def session(self) -> str:
        return sys.intern(self.values[1])

    def specs(self) -> Iterator[JobSpec]:
        """What was to be done, one after the other, without payloads."""
        make = spec_maker(*self.values[6:8])
        return map(make, self.job_ids)

    def digest(self, index: int) -> bytes:
        """What was noted of a payload that is no longer here; empty if it is."""
        return self.digests[index * _ID_BYTES : (index + 1) * _ID_BYTES]

    def without_payloads(self, digests: bytes) -> Row:
        """Give the same row with digests instead of payloads."""
        return sealed(*self.values[:-2], digests, b"")


def train_of(row: Row) -> TrainRow:
    """Read what `train_row` wrote."""
    values = opened(row, "trains")
    ids, sizes, digests, data = values[8:]
    if not ids or len(ids) % _ID_BYTES or len(digests) not in (0, len(ids)):
        raise BadRow(f"train {values[0]} has {len(ids)} bytes of ids")
    job_ids = _ids_of(ids)
    lengths = _column("I", sizes, len(job_ids))
    if not digests and sum(lengths) != len(data):
        raise BadRow(f"the payloads of train {values[0]} are missing")
    return TrainRow(values, values[0], job_ids, Parts(lengths, data), digests)


def ride_row(number: int, ride: Ride, jobs: Sequence[int]) -> Row:
    like = ride.like
    return sealed(
        number,
        like.state,
        LIFE_FORM.pack(like),
        _packed("q", jobs),
        _packed("I", ride.attempts),
    )


@dataclass(frozen=True, slots=True)
class RideRow:
    """What was read of jobs that were placed together."""

    number: int
    state: str
    facts: bytes
    jobs: tuple[int, ...]
    attempts: tuple[int, ...]

    def life(self, index: int, job_id: str) -> Life:
        return LIFE_FORM.unpack(self.facts, job_id, self.attempts[index], self.state)


def ride_of(row: Row) -> RideRow:
    """Read what `ride_row` wrote."""
    number, state, facts, jobs, attempts = opened(row, "rides")
    count = len(jobs) // 8
    return RideRow(
        number,
        sys.intern(state),
        facts,
        _column("q", jobs, count),
        _column("I", attempts, count),
    )


def arrival_row(
    number: int, arrival: Arrival, jobs: Sequence[int], to_wall_s: float, boot: int
) -> Row:
    return sealed(
        number,
        arrival.like.outcome,
        float(arrival.ended_at),
        arrival.ended_at + to_wall_s,
        boot,
        int(arrival.keep_payload),
        ARRIVAL_FORM.pack(arrival.like),
        _packed("q", jobs),
        _packed("I", arrival.attempts),
        _packed("d", arrival.wait_s),
        _packed("d", arrival.run_s),
        _packed("I", list(map(len, arrival.payloads))),
        b"".join(arrival.payloads),
    )


@dataclass(frozen=True, slots=True)
class ArrivalRow:
    """What was read of jobs that ended together."""

    values: Row = field(repr=False)
    number: int
    keeps_payload: bool
    jobs: tuple[int, ...]
    attempts: tuple[int, ...]
    times: tuple[tuple[float, float], ...]
    results: Parts

    @property
    def when(self) -> Row:
        """When they ended: by our clock, by that on the wall, in which boot."""
        return self.values[2:5]

    def end(self, index: int, job_id: str, ended_at: float) -> End:
        """Give how a job ended, without its result."""
        word, facts = self.values[1], self.values[6]
        outcome = ARRIVAL_FORM.unpack(facts, job_id, sys.intern(word), *self.times[index], b"")
        return End(job_id, self.attempts[index], outcome, ended_at)

    def bare(self) -> "ArrivalRow":
        """The same, of the results only how long they are."""
        values = (*self.values[:-1], b"")
        return replace(self, values=values, results=Parts(self.results.sizes, b""))

    def without_results(self) -> Row:
        """Give the same row without the results."""
        return sealed(*self.values[:-1], b"")


def arrival_of(row: Row) -> ArrivalRow:
    """Read what `arrival_row` wrote."""
    values = opened(row, "arrivals")
    jobs, attempts, waits, runs, sizes, data = values[7:]
    count = len(jobs) // 8
    return ArrivalRow(
        values,
        values[0],
        bool(values[5]),
        _column("q", jobs, count),
        _column("I", attempts, count),
        tuple(zip(_column("d", waits, count), _column("d", runs, count), strict=True)),
        Parts(_column("I", sizes, count), data),
    )
