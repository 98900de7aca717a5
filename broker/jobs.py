"""A job and its life: the table of steps, and the one method that takes them."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from grn_zmq.records import Begun, JobSpec, Outcome

from .cells import Key
from .needs import Granted
from .specs import bare, digest_of, payload_digest, shared_key

if TYPE_CHECKING:
    from .trains import Train

NOTHING: Final[Set[str]] = frozenset()
# Earlier attempts that are remembered; who is tried more often has a story of its own.
MOST_TRIED: Final = 8


class State(StrEnum):
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    OOM = "oom"
    CANCELLED = "cancelled"
    LOST = "lost"
    TIMED_OUT = "timed-out"
    EXPIRED = "expired"


class Step(StrEnum):
    PLACE = "be placed"
    REFUSE = "be refused"
    START = "start"
    RETURN = "return"
    RAISE = "raise"
    DIE = "be killed"
    RUN_OUT = "run out of memory"
    CANCEL = "be cancelled"
    LOSE_WORKER = "lose its worker"
    TIME_OUT = "exceed its time limit"
    EXPIRE = "be given up waiting"
    REQUEUE = "go back to the queue"


LIFE: Final[Mapping[State, Mapping[Step, State]]] = {
    State.QUEUED: {
        Step.PLACE: State.ASSIGNED,
        Step.REFUSE: State.FAILED,
        Step.CANCEL: State.CANCELLED,
        Step.EXPIRE: State.EXPIRED,
    },
    State.ASSIGNED: {
        Step.START: State.RUNNING,
        Step.RAISE: State.FAILED,  # its process could not be started
        Step.DIE: State.KILLED,
        Step.RUN_OUT: State.OOM,
        Step.CANCEL: State.CANCELLED,
        Step.TIME_OUT: State.TIMED_OUT,
        Step.LOSE_WORKER: State.LOST,  # it may have started: never a silent rerun
        Step.REQUEUE: State.QUEUED,  # proved never started, or its retries allow it
    },
    State.RUNNING: {
        Step.RETURN: State.SUCCEEDED,
        Step.RAISE: State.FAILED,
        Step.DIE: State.KILLED,
        Step.RUN_OUT: State.OOM,
        Step.CANCEL: State.CANCELLED,
        Step.TIME_OUT: State.TIMED_OUT,
        Step.LOSE_WORKER: State.LOST,
        # The stand-in was measured and now the real run; it gets more room than before; or
        # its retries allow it.
        Step.REQUEUE: State.QUEUED,
    },
    State.SUCCEEDED: {},
    State.FAILED: {},
    State.KILLED: {},
    State.OOM: {},
    State.CANCELLED: {},
    State.LOST: {},
    State.TIMED_OUT: {},
    State.EXPIRED: {},
}

LIVE: Final = frozenset({State.QUEUED, State.ASSIGNED, State.RUNNING})
LEASED: Final = frozenset({State.ASSIGNED, State.RUNNING})


class IllegalStep(Exception):
    """A step that the job's state does not allow. Nothing was changed."""


@dataclass(slots=True)
class Job:
    """One accepted job. Only the core changes it.

    Once the journal has it (`stored`), its payload is no longer here, and its description is
    shared with equal jobs; nor is the payload of its outcome here, of which `result_bytes` stay
    known. `unstarted` attempts are proved never to have
    begun; `retried` ones were allowed by its retries. It may not start while it is `held`, too
    `early`, or `after` jobs that have not ended. `granted` are the named resources it has.

    One that was accepted in a train keeps a small `payload` here. While it is placed in one it
    has a `train`, which has one lease for all of them.
    """

    spec: JobSpec
    number: int
    session: str
    queued_at: float
    digest: bytes = b""
    state: State = State.QUEUED
    attempt: int = 0
    worker: str = ""
    device: str = ""
    # The workers, by device, on whose ledgers it has a lease: first the one that leads it.
    places: tuple[str, ...] = ()
    granted: Granted = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    peak_bytes: int = 0
    predicted_bytes: int = 0
    ooms: int = 0
    level: int = 0
    unstarted: int = 0
    retried: int = 0
    wary: bool = False
    runs_stand_in: bool = False
    stand_in_done: bool = False
    cancelling: bool = False
    stored: bool = False
    expired: bool = False
    missing: Set[str] = NOTHING
    watchers: tuple[str, ...] = ()
    submitted_jobs: bool = False
    waiting_children: int = 0
    counted_by_parent: bool = False
    received: bool = False
    begun: Begun | None = None
    outcome: Outcome | None = None
    result_bytes: int = 0
    payload_bytes: int = 0
    after: tuple[str, ...] = ()
    early: bool = False
    # When the last of what kept it from the queue was over.
    opened_at: float = 0.0
    # What came of earlier attempts, as `Tried` has it.
    tried: tuple[tuple[Any, ...], ...] = ()
    payload: bytes = b""
    train: "Train | None" = None
    job_id: str = field(init=False)
    priority: int = field(init=False)
    held: bool = field(init=False)
    # What profiles know it by.
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        self.job_id = self.spec.job_id
        self.priority = self.spec.priority
        self.held = self.spec.held
        self.key = shared_key(self.spec)
        self.digest = self.digest or digest_of(self.spec)
        self.payload_bytes = self.payload_bytes or len(self.spec.payload)

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def gated(self) -> bool:
        """Whether it may not start yet, whatever room there is."""
        return self.held or self.early or self.after != ()

    @property
    def begin_at(self) -> float:
        """When it may start at the earliest."""
        return self.queued_at + (self.spec.begin_s or 0.0)

    @property
    def value_bytes(self) -> int:
        """What is kept of its value, in the journal or in a parcel."""
        return self.result_bytes + (self.outcome.token_bytes if self.outcome else 0)

    @property
    def starts(self) -> int:
        """How often its body, or its stand-in, may have started."""
        return self.attempt - self.unstarted

    @property
    def digests(self) -> tuple[str, ...]:
        """The blobs this job cannot run without."""
        return tuple(digest for digest in (self.spec.function, self.spec.context) if digest)

    def is_of(self, spec: JobSpec) -> bool:
        """Whether this is the job of such a submission."""
        mine = self.digest or payload_digest(self.payload)
        return bare(self.spec) == bare(spec) and mine == digest_of(spec)

    @property
    def rides(self) -> bool:
        """Whether it follows another job, in whose lease it will run."""
        return self.train is not None and self.train.holder is not self

    def take(self, step: Step) -> None:
        """Move to the next state, or refuse and change nothing."""
        try:
            self.state = LIFE[self.state][step]
        except KeyError:
            raise IllegalStep(
                f"job {self.job_id} is {self.state.value}: it cannot {step.value}"
            ) from None
