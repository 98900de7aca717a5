"""What the core asks the shell to do. The core itself does nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grn_zmq import wire

Peer = bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message to this peer, once what led to it is safe in the journal.

    The payload of the jobs in `fetch` is there too, and is added on the way out. A peer of
    an older `protocol` gets the message as that wrote it.
    """

    peer: Peer
    message: wire.Message
    fetch: tuple[str, ...] = ()
    protocol: int = wire.PROTOCOL


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
class Unwatch:
    """Nobody wants to know any more when this process ends."""

    name: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove this parcel: nobody will ask for it again."""

    token: str


@dataclass(frozen=True, slots=True)
class DiscardOf:
    """Remove the parcels of a client that is gone, but for those that jobs still need."""

    session: str
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class DiscardLog:
    """Remove what this job printed: it is forgotten."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Hook:
    """Run this command, or post to this URL: a job has ended, and somebody wants to know."""

    command: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Quit:
    """All is done that was to be done before the end: leave."""


Effect = Send | Note | Watch | Unwatch | Discard | DiscardOf | DiscardLog | Hook | Quit
