"""What a turn of the loop changed and the journal must keep, as values of its own.

The core notes what it touched; `take` makes of it one batch that is committed before any
message of that turn leaves.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from grn_zmq.records import Blob, JobSpec, Outcome

from .cells import Cell, CellId


@dataclass(frozen=True, slots=True)
class NewJob:
    """What never changes about an accepted job. `digest` tells its payload from any other."""

    spec: JobSpec
    number: int
    session: str
    queued_at: float
    digest: bytes


@dataclass(frozen=True, slots=True)
class Life:
    """Where a live job stands: queued, or assigned to one incarnation of a worker.

    That its body runs is not kept: the worker that has it says so when it greets.
    """

    job_id: str
    attempt: int
    state: str
    worker: str = ""
    incarnation: str = ""
    boot_id: str = ""
    device: str = ""
    lease_bytes: int = 0
    measuring: bool = False
    alone: bool = False
    runs_stand_in: bool = False
    stand_in_done: bool = False
    cancelling: bool = False
    submitted_jobs: bool = False
    wary: bool = False
    level: int = 0
    ooms: int = 0
    unstarted: int = 0
    retried: int = 0
    peak_bytes: int = 0
    predicted_bytes: int = 0
    priority: int = 0
    held: bool = False
    tried: tuple[tuple[Any, ...], ...] = ()
    # It was kept from starting once: its time to wait counts from later than its arrival.
    was_gated: bool = False
    places: tuple[str, ...] = ()
    # By resource and instance: exact amounts, as texts.
    granted: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended, and which attempt that was. Kept once, never changed.

    Its arguments go, unless it `keeps_payload` for another try.
    """

    job_id: str
    attempt: int
    outcome: Outcome
    ended_at: float
    keeps_payload: bool = False


@dataclass(frozen=True, slots=True)
class NewTrain:
    """Jobs that were accepted together, numbered in a row from `number` on.

    They differ in id and payload alone; `spec` is what they share.
    """

    spec: JobSpec
    number: int
    session: str
    queued_at: float
    job_ids: tuple[str, ...]
    payloads: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ride:
    """Jobs that were placed together, one after the other in one lease.

    Their lives are `like` but for id and attempt.
    """

    like: Life
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Jobs that ended together, as `like` says but for what stands in columns.

    Their arguments go, unless they `keep_payload` for another try.
    """

    like: Outcome
    ended_at: float
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]
    wait_s: tuple[float, ...]
    run_s: tuple[float, ...]
    payloads: tuple[bytes, ...] = field(repr=False)
    keep_payload: bool = False


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A client with attached jobs; the journal adds when its process was born."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True)
class Death:
    """A worker died while jobs of this type ran; `blame` is shared between the types there."""

    job_type: str
    blame: float
    at: float


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job as the journal gives it back: `spec` and `outcome` without their payload.

    Live jobs have a `life`, others an `end`; `expired` says that its result was let go. The
    sizes are those of the payloads that are still in the journal.
    """

    new: NewJob
    life: Life | None = None
    end: End | None = None
    expired: bool = False
    payload_bytes: int = 0
    result_bytes: int = 0


@dataclass(slots=True)
class Kept:
    """All that a broker starts from."""

    epoch: int = 1
    last_number: int = 0
    jobs: Iterable[KeptJob] = ()
    sessions: Iterable[KeptSession] = ()
    blobs: Iterable[Blob] = ()
    cells: Iterable[tuple[CellId, Cell]] = ()
    deaths: Iterable[Death] = ()
    paused: bool = False
    queues: str = ""


@dataclass(slots=True)
class Batch:
    """One transaction. It is `durable` if it must outlive a power cut too."""

    jobs: list[NewJob] = field(default_factory=list)
    trains: list[NewTrain] = field(default_factory=list)
    rides: list[Ride] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    lost_blobs: list[str] = field(default_factory=list)
    sessions: list[KeptSession] = field(default_factory=list)
    lost_sessions: list[str] = field(default_factory=list)
    forgotten_types: list[str] = field(default_factory=list)
    cells: dict[CellId, Cell] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    # Inputs of ended jobs that are kept no longer.
    spent: list[str] = field(default_factory=list)
    paused: bool | None = None
    # All queues there are, if one was made or deleted.
    queues: str | None = None
    durable: bool = False

    @property
    def empty(self) -> bool:
        return self == Batch()


class Changes:
    """Gathers what handlers touch between two batches, each turn's in one `batch`."""

    def __init__(self) -> None:
        self.batch = Batch()

    def remember(self, cell_id: CellId, cell: Cell) -> None:
        self.batch.cells[cell_id] = replace(cell)

    def keep_session(self, session: KeptSession) -> None:
        """It is here, even if it went away earlier in this turn."""
        if session.name in self.batch.lost_sessions:
            self.batch.lost_sessions.remove(session.name)
        self.batch.sessions.append(session)

    def lose_session(self, name: str) -> None:
        self.batch.sessions = [one for one in self.batch.sessions if one.name != name]
        self.batch.lost_sessions.append(name)

    def forget_type(self, job_type: str) -> None:
        cells = self.batch.cells
        for cell_id in [one for one in cells if one.job_type == job_type]:
            del cells[cell_id]
        self.batch.forgotten_types.append(job_type)

    def take(self) -> Batch:
        """Give what was gathered, and begin anew."""
        batch, self.batch = self.batch, Batch()
        return batch
