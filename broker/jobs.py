"""A job and its life: the table of steps, and the one method that takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from grn_zmq.records import JobSpec, Outcome

from .cells import Key, key_of


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
    REQUEUE = "go back to the queue"


LIFE: Final[Mapping[State, Mapping[Step, State]]] = {
    State.QUEUED: {
        Step.PLACE: State.ASSIGNED,
        Step.REFUSE: State.FAILED,
        Step.CANCEL: State.CANCELLED,
    },
    State.ASSIGNED: {
        Step.START: State.RUNNING,
        Step.RAISE: State.FAILED,  # its process could not be started
        Step.DIE: State.KILLED,
        Step.RUN_OUT: State.OOM,
        Step.CANCEL: State.CANCELLED,
        Step.LOSE_WORKER: State.LOST,  # it may have started: never a silent rerun
    },
    State.RUNNING: {
        Step.RETURN: State.SUCCEEDED,
        Step.RAISE: State.FAILED,
        Step.DIE: State.KILLED,
        Step.RUN_OUT: State.OOM,
        Step.CANCEL: State.CANCELLED,
        Step.LOSE_WORKER: State.LOST,
        # The stand-in was measured and now the real run; or it gets more room than before.
        Step.REQUEUE: State.QUEUED,
    },
    State.SUCCEEDED: {},
    State.FAILED: {},
    State.KILLED: {},
    State.OOM: {},
    State.CANCELLED: {},
    State.LOST: {},
}

LIVE: Final = frozenset({State.QUEUED, State.ASSIGNED, State.RUNNING})
LEASED: Final = frozenset({State.ASSIGNED, State.RUNNING})


class IllegalStep(Exception):
    """A step that the job's state does not allow. Nothing was changed."""


@dataclass(slots=True)
class Job:
    """One accepted job. Only the core changes it."""

    spec: JobSpec
    number: int
    session: str
    queued_at: float
    state: State = State.QUEUED
    attempt: int = 0
    worker: str = ""
    device: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    peak_bytes: int = 0
    predicted_bytes: int = 0
    ooms: int = 0
    level: int = 0
    wary: bool = False
    runs_stand_in: bool = False
    stand_in_done: bool = False
    cancelling: bool = False
    missing: set[str] = field(default_factory=set)
    watchers: set[str] = field(default_factory=set)
    submitted_jobs: bool = False
    waiting_children: int = 0
    counted_by_parent: bool = False
    handed_over: bool = False
    outcome: Outcome | None = None
    payload_hash: int | None = None
    # What profiles know it by.
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        self.key = key_of(self.spec.job_type, self.spec.by)

    @property
    def job_id(self) -> str:
        return self.spec.job_id

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def digests(self) -> tuple[str, ...]:
        """The blobs this job cannot run without."""
        return tuple(digest for digest in (self.spec.function, self.spec.context) if digest)

    def drop_payload(self) -> None:
        """Let go of the arguments of a job that has ended; a hash still tells them apart."""
        self.payload_hash = hash(self.spec.payload)
        self.spec = replace(self.spec, payload=b"")

    def is_of(self, spec: JobSpec) -> bool:
        """Whether this is the job of such a submission."""
        if self.payload_hash is None:
            return self.spec == spec
        same = self.spec == replace(spec, payload=b"")
        return same and self.payload_hash == hash(spec.payload)

    def take(self, step: Step) -> None:
        """Move to the next state, or refuse and change nothing."""
        try:
            self.state = LIFE[self.state][step]
        except KeyError:
            raise IllegalStep(
                f"job {self.job_id} is {self.state.value}: it cannot {step.value}"
            ) from None
