"""Every message of the protocol. Client, broker and worker share this file and nothing else.

Frames are made and checked by `codec.py`; the parts of messages are in `records.py`. Fields
of type `bytes` are payload: opaque to the broker, opened only in the job process or by the
client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from .codec import MAX_BODY_BYTES, MAX_HEADER_BYTES, BadMessage, Codec, Frames
from .records import (
    HOWS,
    AttemptId,
    Begun,
    Blob,
    DeviceFacts,
    DeviceRow,
    JobRow,
    JobSpec,
    Numbered,
    Outcome,
    Piece,
    ProfileRow,
    Released,
    Result,
    Run,
    Use,
    require,
    require_id,
)

__all__ = ["PROTOCOL", "BadMessage", "Frames", "decode", "encode"]

PROTOCOL: Final = 2

# Enough to fill a loop turn, small enough that a header stays far below its limit.
MAX_JOBS_PER_MESSAGE: Final = 128
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
    """Broker -> client, worker: greeting taken. Messages of another epoch do not count."""

    kind: ClassVar[str] = "welcome"

    protocol: int
    epoch: int
    pid: int


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
class Greet:
    """Worker -> broker: the device I own, and every attempt I still have."""

    kind: ClassVar[str] = "greet"

    protocol: int
    worker: str
    incarnation: str
    boot_id: str
    pid: int
    device: DeviceFacts
    max_jobs: int | None
    inventory: tuple[AttemptId, ...]

    def __post_init__(self) -> None:
        require_id(self.incarnation, "incarnation")
        require(self.device.total_bytes > 0, "a device has memory")


@dataclass(frozen=True, slots=True)
class Finished:
    """Worker -> broker: how these attempts ended. Repeated until recorded."""

    kind: ClassVar[str] = "finished"

    epoch: int
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Worker -> broker: the device now. Also the heartbeat."""

    kind: ClassVar[str] = "report"

    used_bytes: int
    foreign_bytes: int
    idle_bytes: int
    utilisation: float
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Broker -> worker: run these attempts, each inside its lease."""

    kind: ClassVar[str] = "assign"

    epoch: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Broker -> worker: end these attempts, each with its whole process tree."""

    kind: ClassVar[str] = "end"

    epoch: int
    how: str
    attempts: tuple[AttemptId, ...]

    def __post_init__(self) -> None:
        require(self.how in HOWS, f"unknown way to end {self.how[:40]!r}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Broker -> worker: these results are safe; forget them."""

    kind: ClassVar[str] = "recorded"

    epoch: int
    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class EndIdle:
    """Broker -> worker: end idle job processes; of one client only, if `session` is set."""

    kind: ClassVar[str] = "end-idle"

    session: str


FromClient = (
    Hello
    | Blobs
    | Submit
    | Cancel
    | Release
    | Attach
    | Received
    | AskJobs
    | AskDevices
    | AskProfiles
    | ForgetProfiles
)
FromWorker = Greet | Started | Finished | Report | Output | Want
ToClient = (
    Welcome
    | Accepted
    | Refused
    | Want
    | Started
    | Output
    | Cancelling
    | Ended
    | JobsAre
    | DevicesAre
    | ProfilesAre
    | Forgotten
)
ToWorker = Welcome | Refused | Blobs | Assign | End | Recorded | EndIdle | Release
Message = FromClient | FromWorker | ToClient | ToWorker

MESSAGES: Final[Mapping[str, type]] = {
    message.kind: message
    for message in (
        Hello, Submit, Cancel, Release, Attach, Received, AskJobs, AskDevices,
        AskProfiles, ForgetProfiles, ProfilesAre, Forgotten,
        Welcome, Accepted, Refused, Want, Cancelling, Ended, JobsAre, DevicesAre,
        Blobs, Output, Started, Greet, Finished, Report, Assign, End, Recorded, EndIdle,
    )
}  # fmt: skip

_codec = Codec(MESSAGES.values())


def encode(message: Message) -> Frames:
    """Give the frames of a message, without addresses."""
    return _codec.encode(message)


def decode(frames: Frames) -> Message:
    """Give the message of these frames, or raise `BadMessage`."""
    message: Message = _codec.decode(frames)
    return message
