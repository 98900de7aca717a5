"""One train: a run, and the calls that follow it in its job process. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from grn_zmq.records import Run

from .measured import Measured
from .runs import Member
from .spoollog import Attempt, ReturnedRecord, TrainRecord

# What a job process is given at once.
MOST_CALLS: Final = 256
MOST_BYTES: Final = 60 << 10
# Of the values in one message: half of what one can carry.
MOST_VALUES_BYTES: Final = 8 << 20


@dataclass(slots=True)
class Train:
    """A run and what follows it.

    Those that are `fed` are in the job process, the first is the current one; after them come
    those that are `waiting`. Of a `sealed` one nothing more begins that is fed now, of one that
    is `closing` nothing at all. `ends` are to be ended once it is known where they are.
    """

    number: int
    slot: int
    like: Run
    waiting: deque[Member]
    fed: deque[Member] = field(default_factory=deque)
    process: int | None = None
    measured: Measured = field(default_factory=Measured)
    since: float = float("inf")
    sealed: bool = False
    asked: bool = False
    closing: bool = False
    ends: dict[Attempt, str] = field(default_factory=dict)
    # How often its process was given calls: an order about an earlier packet is void.
    packets: int = 0

    @property
    def record(self) -> TrainRecord:
        """What is written down before anything of it can begin."""
        places, ids, attempts, *_ = zip(*self.waiting, strict=True)
        return TrainRecord(self.like.detached, self.slot, self.number, places, ids, attempts)

    def run_of(self, member: Member) -> Run:
        return replace(
            self.like,
            job_id=member.job_id,
            attempt=member.attempt,
            number=member.number,
            payload=member.payload,
        )

    def next_packet(self) -> tuple[Member, ...]:
        """Take from those that wait what the job process is given next: a row without gaps."""
        packet: list[Member] = []
        size = 0
        while self.waiting and len(packet) < MOST_CALLS:
            member = self.waiting[0]
            size += len(member.payload)
            if packet and (size > MOST_BYTES or member.place != packet[-1].place + 1):
                break
            packet.append(self.waiting.popleft())
        self.fed.extend(packet)
        self.packets += 1
        self.sealed = self.asked = False
        return tuple(packet)


def can_lead(run: Run) -> bool:
    """Whether calls may follow this run: what they need for themselves is said in no tail."""
    special = run.environment or run.stand_in or run.enforce or run.token
    limited = run.time_limit_s is not None or len(run.devices) > 1
    named = any("{" in text for item in run.variables.items() for text in item)
    return run.kind == "call" and run.reuse and not (special or limited or named)


def records_of(
    train: Train, members: Sequence[Member], run_s: Sequence[float], payloads: Sequence[bytes]
) -> list[ReturnedRecord]:
    """Write down that these returned values, in as many records as messages can carry."""
    records: list[ReturnedRecord] = []
    at = 0
    while at < len(members):
        end, size = at + 1, len(payloads[at])
        while end < len(members) and size + len(payloads[end]) <= MOST_VALUES_BYTES:
            size += len(payloads[end])
            end += 1
        some = members[at:end]
        records.append(
            ReturnedRecord(
                train.like.detached,
                tuple([one.job_id for one in some]),
                tuple([one.attempt for one in some]),
                tuple(run_s[at:end]),
                tuple(payloads[at:end]),
                train.measured.peak_bytes,
                train.measured.utilisation,
                train.measured.seen,
            )
        )
        at = end
    return records
