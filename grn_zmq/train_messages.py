"""Messages about trains: many calls that differ in nothing but id and payload.

What they share is said once, all else in columns, so that a thousand of them cost little more
than one. `wire.py` has the rest and all names.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from .records import AttemptId, JobSpec, Outcome
from .requiring import require_columns, require_ids


@dataclass(frozen=True, slots=True)
class Calls:
    """Client -> broker: take these jobs, which differ in nothing but id and payload.

    `like` describes them all; its own id and payload mean nothing.
    """

    kind: ClassVar[str] = "calls"

    like: JobSpec
    job_ids: tuple[str, ...]
    payloads: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        require_ids(self.job_ids)
        require_columns(self.job_ids, self.payloads)


@dataclass(frozen=True, slots=True)
class Taken:
    """Broker -> client: these jobs are safe here, numbered in a row from `first` on."""

    kind: ClassVar[str] = "taken"

    first: int
    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Broker -> client: these jobs have ended as `like` says, but for what stands in columns.

    Its own id, times and payload mean nothing. Repeated, as `ended`, until received.
    """

    kind: ClassVar[str] = "values"

    like: Outcome
    job_ids: tuple[str, ...]
    wait_s: tuple[float, ...]
    run_s: tuple[float, ...]
    payloads: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        require_columns(self.job_ids, self.wait_s, self.run_s, self.payloads)


@dataclass(frozen=True, slots=True)
class Returned:
    """Worker -> broker: these attempts returned values; nothing else is to be said of each.

    Together they were seen to use at most `peak_bytes`. Repeated, as `finished`, until
    recorded.
    """

    kind: ClassVar[str] = "returned"

    epoch: int
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]
    run_s: tuple[float, ...]
    payloads: tuple[bytes, ...] = field(repr=False)
    peak_bytes: int
    utilisation: float
    seen: bool

    def __post_init__(self) -> None:
        require_ids(self.job_ids)
        require_columns(self.job_ids, self.attempts, self.run_s, self.payloads)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Broker -> worker: what these attempts returned is safe; forget them."""

    kind: ClassVar[str] = "arrived"

    epoch: int
    job_ids: tuple[str, ...]
    attempts: tuple[int, ...]

    def __post_init__(self) -> None:
        require_columns(self.job_ids, self.attempts)


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Worker -> broker: these were to follow others, have not begun and never will here."""

    kind: ClassVar[str] = "given-back"

    epoch: int
    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Broker -> worker: give back whatever follows others and has not begun."""

    kind: ClassVar[str] = "recall"

    epoch: int
