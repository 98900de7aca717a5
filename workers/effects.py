"""What the worker's core asks its shell to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grn_zmq import wire
from grn_zmq.records import Leased, Result, Run

from .runs import Member
from .spoollog import Record


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this message to the broker."""

    message: wire.FromWorker


@dataclass(frozen=True, slots=True)
class Keep:
    """Write this to the spool, before anything else that is asked for.

    For a start the core waits: `kept` or `not_kept` tells it how that went.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class SetAside:
    """Put away a result that the broker knows nothing of."""

    result: Result


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove this parcel: nobody will ask for it."""

    token: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a job process under this key, in the context of its client, for these devices."""

    process: int
    context: bytes = field(repr=False)
    devices: tuple[Leased, ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """Hand an attempt to a job process; `function` only if it lacks it."""

    process: int
    run: Run
    function: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class FeedTrain:
    """Hand calls of a train to a job process; `run` is the first of them."""

    process: int
    run: Run
    function: bytes | None = field(repr=False)
    train: int
    slot: int
    calls: tuple[Member, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Let nothing more of a train begin in this job process; `taken_back` tells how many.

    With `if_begun`, a mark of its page (`slot`), only if its current call has begun: else it
    has not got to it yet, and `not_begun` tells.
    """

    process: int
    packet: int
    slot: int = 0
    if_begun: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Signal the job's process group."""

    process: int
    signum: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the whole process tree; its exit is reported like any other."""

    process: int


@dataclass(frozen=True, slots=True)
class Close:
    """Let a job process end quietly."""

    process: int


@dataclass(frozen=True, slots=True)
class WatchCaller:
    """Measure this process, and tell when it is gone: it runs the job itself."""

    job_id: str
    pid: int


@dataclass(frozen=True, slots=True)
class UnwatchCaller:
    job_id: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write one line to the log."""

    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    level: str = "info"


Effect = (
    Reply
    | Keep
    | SetAside
    | Discard
    | Launch
    | Feed
    | FeedTrain
    | TakeBack
    | Signal
    | Kill
    | Close
    | WatchCaller
    | UnwatchCaller
    | Note
)
