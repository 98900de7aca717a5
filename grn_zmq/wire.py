"""Every message of the protocol. Client, broker and worker share this file and nothing else.

Frames are made and checked by `codec.py`; the parts of messages are in `records.py`, what only
workers hear and say in `worker_messages.py`, what commands ask and order in
`control_messages.py`, what is said of many like calls at once in `train_messages.py`. Fields
of type `bytes` are payload: opaque to the broker, opened only in the job process or by the
client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from .codec import MAX_BODY_BYTES, MAX_HEADER_BYTES, BadMessage, Codec, Frames
from .control_messages import (
    Acted,
    Answer,
    AskCells,
    AskEnvironments,
    AskInputs,
    AskJob,
    AskQueues,
    AskScene,
    AskWhy,
    CellsAre,
    Clean,
    CreateQueue,
    DeleteQueue,
    EnvironmentsAre,
    FindJobs,
    Hold,
    InputsAre,
    JobIs,
    JobsFound,
    Order,
    Pause,
    Prioritise,
    PutCells,
    QueuesAre,
    SceneIs,
    WhyIs,
)
from .facts import DeviceRow, JobRow, ProfileRow
from .limits import CREDITS
from .records import Begun, Blob, JobSpec, Numbered, Outcome, Piece, Released
from .requiring import require_id
from .train_messages import Arrived, Calls, GivenBack, Recall, Returned, Taken, Values
from .worker_messages import (
    Assign,
    Declined,
    End,
    EndIdle,
    Finished,
    Greet,
    Leave,
    Leaving,
    Recorded,
    Report,
    Unknown,
)

__all__ = [
    "PROTOCOL", "Acted", "Answer", "Arrived", "AskCells", "AskEnvironments", "AskInputs",
    "AskJob", "AskQueues", "AskScene", "AskWhy", "Assign", "BadMessage", "Calls", "CellsAre",
    "Clean", "CreateQueue", "Declined", "DeleteQueue", "End", "EndIdle", "EnvironmentsAre",
    "FindJobs", "Finished", "Frames", "GivenBack", "Greet", "Hold", "InputsAre", "JobIs",
    "JobsFound", "Leave", "Leaving", "Order", "Pause", "Prioritise", "PutCells", "QueuesAre",
    "Recall", "Recorded", "Report", "Returned", "SceneIs", "Taken", "Unknown", "Values",
    "WhyIs", "decode", "encode",
]  # fmt: skip

PROTOCOL: Final = 5
# Clients outlive an upgrade of the broker: those of the protocol before are served too.
PROTOCOL_BEFORE: Final = PROTOCOL - 1

# Enough to fill a loop turn, small enough that a header stays far below its limit.
MAX_JOBS_PER_MESSAGE: Final = 128
# Of calls that share their description, each of which is an id and its arguments.
MAX_CALLS_PER_MESSAGE: Final = 1024
MAX_FRAME_BYTES: Final = MAX_BODY_BYTES + MAX_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Hello:
    """Client -> broker: who I am. First on every connection."""

    kind: ClassVar[str] = "hello"

    protocol: int
    session: str
    pid: int

    def __post_init__(self) -> None:
        require_id(self.session, "session")


@dataclass(frozen=True, slots=True)
class Submit:
    """Client -> broker: take these jobs. Repeating one changes nothing."""

    kind: ClassVar[str] = "submit"

    jobs: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Client -> broker: end these jobs, by SIGINT first if `interrupt`."""

    kind: ClassVar[str] = "cancel"

    job_ids: tuple[str, ...]
    interrupt: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Client -> broker -> worker: the inline bodies of these attempts have ended."""

    kind: ClassVar[str] = "release"

    runs: tuple[Released, ...]


@dataclass(frozen=True, slots=True)
class Attach:
    """Client -> broker: tell me as well how these jobs end."""

    kind: ClassVar[str] = "attach"

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """Client -> broker: I have these outcomes; their payload may go."""

    kind: ClassVar[str] = "received"

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskJobs:
    """Client -> broker: list the jobs numbered above `after`, ended ones too if `ended`."""

    kind: ClassVar[str] = "ask-jobs"

    after: int
    ended: bool


@dataclass(frozen=True, slots=True)
class AskDevices:
    """Client -> broker: list the devices."""

    kind: ClassVar[str] = "ask-devices"


@dataclass(frozen=True, slots=True)
class AskProfiles:
    """Client -> broker: list what is known of job types, from the row `after` on."""

    kind: ClassVar[str] = "ask-profiles"

    after: int


@dataclass(frozen=True, slots=True)
class ForgetProfiles:
    """Client -> broker: forget what was measured of these job types."""

    kind: ClassVar[str] = "forget-profiles"

    job_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Welcome:
    """Broker -> client, worker: greeting taken. Messages of another epoch do not count.

    `greeting` repeats that of the worker, who believes only the answer to its last one; a
    client may have as many jobs without answer as it has `credits`.
    """

    kind: ClassVar[str] = "welcome"

    protocol: int
    epoch: int
    pid: int
    greeting: int = 0
    credits: int = CREDITS


@dataclass(frozen=True, slots=True)
class Accepted:
    """Broker -> client: these jobs are safe here."""

    kind: ClassVar[str] = "accepted"

    jobs: tuple[Numbered, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Broker -> client, worker: no, and why. `job_ids` are the jobs it is about."""

    kind: ClassVar[str] = "refused"

    reason: str
    text: str
    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Want:
    """Broker -> client, worker -> broker: send me the blobs of these names."""

    kind: ClassVar[str] = "want"

    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancelling:
    """Broker -> client: the outcome of these jobs will be, or is, cancelled."""

    kind: ClassVar[str] = "cancelling"

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Broker -> client: these jobs have ended. Repeated until received."""

    kind: ClassVar[str] = "ended"

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class JobsAre:
    """Broker -> client: the jobs asked for; `more` if the list goes on."""

    kind: ClassVar[str] = "jobs-are"

    rows: tuple[JobRow, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class DevicesAre:
    """Broker -> client: all devices."""

    kind: ClassVar[str] = "devices-are"

    rows: tuple[DeviceRow, ...]


@dataclass(frozen=True, slots=True)
class ProfilesAre:
    """Broker -> client: the profiles asked for; `more` if the list goes on."""

    kind: ClassVar[str] = "profiles-are"

    rows: tuple[ProfileRow, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Broker -> client: how many profiles are forgotten."""

    kind: ClassVar[str] = "forgotten"

    profiles: int


@dataclass(frozen=True, slots=True)
class Blobs:
    """Client -> broker -> worker: what jobs share, once per connection."""

    kind: ClassVar[str] = "blobs"

    blobs: tuple[Blob, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """Worker -> broker -> client: what jobs printed, in the order in which they did."""

    kind: ClassVar[str] = "output"

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """Worker -> broker -> client: these attempts begin now."""

    kind: ClassVar[str] = "started"

    runs: tuple[Begun, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Client -> broker: stop with all workers; with `drain` let running jobs end first."""

    kind: ClassVar[str] = "stop"

    drain: bool


@dataclass(frozen=True, slots=True)
class Stopping:
    """Broker -> client: I am stopping; so many still run, so many stay for the next start."""

    kind: ClassVar[str] = "stopping"

    running: int
    kept: int = 0


FromClient = (
    Hello
    | Blobs
    | Submit
    | Calls
    | Cancel
    | Release
    | Attach
    | Received
    | AskJobs
    | AskDevices
    | AskProfiles
    | ForgetProfiles
    | Stop
    | Order
)
FromWorker = (
    Greet
    | Started
    | Finished
    | Returned
    | Report
    | Output
    | Want
    | Declined
    | GivenBack
    | Leaving
)
ToClient = (
    Welcome
    | Accepted
    | Taken
    | Refused
    | Want
    | Started
    | Output
    | Cancelling
    | Ended
    | Values
    | JobsAre
    | DevicesAre
    | ProfilesAre
    | Forgotten
    | Stopping
    | Answer
)
ToWorker = (
    Welcome
    | Refused
    | Blobs
    | Assign
    | End
    | Recall
    | Recorded
    | Arrived
    | Unknown
    | EndIdle
    | Release
    | Leave
)
Message = FromClient | FromWorker | ToClient | ToWorker

MESSAGES: Final[Mapping[str, type]] = {one.kind: one for one in get_args(Message)}

_codec = Codec(MESSAGES.values())


def encode(message: Message, protocol: int = PROTOCOL) -> Frames:
    """Give the frames of a message, without addresses, as this protocol writes them."""
    return _codec.encode(message, before=protocol == PROTOCOL_BEFORE)


def decode(frames: Frames) -> Message:
    """Give the message of these frames, or raise `BadMessage`."""
    return _codec.decode(frames)  # type: ignore[no-any-return]
