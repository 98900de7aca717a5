"""Who is connected: client sessions and workers, by the names they greeted with."""

from dataclasses import dataclass, field

from grn_zmq import wire

from .effects import Peer
from .ledger import Ledger


@dataclass(slots=True)
class Session:
    """One client process. `unreceived` outcomes are sent again when it comes back."""

    name: str
    peer: Peer
    pid: int
    unreceived: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Worker:
    """One worker process and the ledger of the device it owns.

    It is `suspect`, and gets no new job, until it has reported what its device has, and
    whenever it has reported nothing for long.
    """

    greeting: wire.Greet
    peer: Peer
    ledger: Ledger
    last_report: float
    suspect: bool = True
    blobs_sent: set[str] = field(default_factory=set)
    idle_asked: bool = False

    @property
    def incarnation(self) -> str:
        return self.greeting.incarnation

    @property
    def label(self) -> str:
        """How this device is called in lists and messages: `host:0`, `nvml:3`."""
        return f"{self.ledger.facts.kind}:{self.ledger.facts.index}"
