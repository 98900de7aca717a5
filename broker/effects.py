"""What the core asks the shell to do. The core itself does nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grn_zmq import wire

from .cells import Cell, CellId

Peer = bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message to this peer."""

    peer: Peer
    message: wire.Message


@dataclass(frozen=True, slots=True)
class Note:
    """Write one line to the log; `facts` are bound to it."""

    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    level: str = "info"


@dataclass(frozen=True, slots=True)
class Watch:
    """Tell the core by `lose(name)` when this process is gone."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep what is known of this cell beyond the broker's life; within a second is enough."""

    cell_id: CellId
    cell: Cell


@dataclass(frozen=True, slots=True)
class Forget:
    """Keep no cell of this job type any longer."""

    job_type: str


Effect = Send | Note | Watch | Remember | Forget
