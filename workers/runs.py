"""What a worker keeps: attempts it was given, and the job processes they run in."""

from dataclasses import dataclass, field
from enum import StrEnum

from grn_zmq.records import Result, Run


class Phase(StrEnum):
    LACKS_BLOBS = "lacks blobs"
    RUNNING = "running"
    ENDING = "ending"


@dataclass(slots=True)
class ActiveRun:
    """One attempt in this worker's hands.

    `result` is what the job process said; it is kept back until that process is proved
    gone, or clean enough to be used again. Only then is the memory free.
    """

    run: Run
    phase: Phase
    given_at: float
    began_at: float | None = None
    process: int | None = None
    peak_bytes: int = 0
    used_bytes: int = 0
    seen: bool = False
    asked_to_end: bool = False
    deadline: float | None = None
    next_signal: int | None = None
    result: Result | None = None

    @property
    def digests(self) -> tuple[str, ...]:
        """The blobs without which it cannot begin."""
        return tuple(digest for digest in (self.run.function, self.run.context) if digest)

    @property
    def inline(self) -> bool:
        return self.run.kind == "inline"


@dataclass(slots=True)
class Process:
    """One job process. Idle while `job_id` is empty; then `idle_since` says for how long."""

    key: int
    session: str
    job_type: str
    context: str
    job_id: str
    idle_since: float | None = None
    kill_at: float | None = None
    functions: set[str] = field(default_factory=set)

    def idle_for(self, now: float) -> float:
        """Seconds without a job; 0 while it has one or is being ended."""
        if self.idle_since is None or self.kill_at is not None:
            return 0.0
        return now - self.idle_since

    def serves(self, run: Run) -> bool:
        """Whether this attempt may use the process: same client, type and context only."""
        mine = (self.session, self.job_type, self.context)
        theirs = (run.session, run.job_type, run.context)
        return self.idle_since is not None and self.kill_at is None and mine == theirs
