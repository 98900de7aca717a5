"""Who is connected: client sessions and workers, by the names they greeted with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from grn_zmq import wire
from grn_zmq.records import DeviceFacts, Leased, Piece

from .effects import Peer
from .ledger import Ledger

NOBODY: Final[Peer] = b""
# Clients are back within seconds; more than this is a flood that nobody reads.
MOST_MISSED_BYTES: Final = 256 << 10


@dataclass(slots=True)
class Session:
    """One client process, which may be away for a while: then it has no peer.

    Outcomes it has not acknowledged wait in `unsent`, or are `in_flight` with their bytes.
    """

    name: str
    peer: Peer
    pid: int
    protocol: int = wire.PROTOCOL
    unsent: dict[str, None] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)
    in_flight_bytes: int = 0
    stored: bool = False
    away_at: float | None = None
    missed: list[Piece] = field(default_factory=list)

    def miss(self, piece: Piece) -> None:
        """Keep what was printed until it is back, but not without end."""
        if sum(len(one.data) for one in self.missed) < MOST_MISSED_BYTES:
            self.missed.append(piece)

    @property
    def unreceived(self) -> set[str]:
        return {*self.unsent, *self.in_flight}


@dataclass(slots=True)
class Worker:
    """One worker process and the ledger of the device it owns.

    It `leads` the attempts that it starts and answers for; those may have leases elsewhere
    too, or none. It is `suspect`, and gets no new job, until it has reported what its device
    has, and whenever it has reported nothing for long; one that is `leaving` never gets one
    again.
    """

    greeting: wire.Greet
    peer: Peer
    ledger: Ledger
    last_report: float
    suspect: bool = True
    leaving: bool = False
    blobs_sent: set[str] = field(default_factory=set)
    idle_asked: bool = False
    leads: dict[str, int] = field(default_factory=dict)

    @property
    def incarnation(self) -> str:
        return self.greeting.incarnation

    @property
    def name(self) -> str:
        """What stays the same when the worker dies and is started again: its device."""
        return self.greeting.worker

    @property
    def offers(self) -> frozenset[str]:
        """The environments it has."""
        return frozenset(one.name for one in self.greeting.environments)

    @property
    def label(self) -> str:
        """How this device is called in lists and messages: `host:0`, `nvml:3`."""
        return f"{self.ledger.facts.kind}:{self.ledger.facts.index}"


def label_of(workers: Sequence[Worker]) -> str:
    """How several devices are called together: `nvml:0,2`; nothing for none."""
    if not workers:
        return ""
    indices = ",".join(str(one.ledger.facts.index) for one in workers)
    return f"{workers[0].ledger.facts.kind}:{indices}"


def leased_device(facts: DeviceFacts) -> Leased:
    """A device as the worker that runs a job there needs to know it."""
    return Leased(facts.uuid, facts.index, f"{facts.kind}:{facts.index}")
