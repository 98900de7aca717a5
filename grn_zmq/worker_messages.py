"""The messages between the broker and its workers; `wire.py` has the rest and all names."""

from dataclasses import dataclass
from typing import ClassVar

from .records import (
    HOWS,
    AttemptId,
    DeviceFacts,
    DeviceProcess,
    Held,
    Offer,
    Result,
    Run,
    Use,
)
from .requiring import require, require_id


@dataclass(frozen=True, slots=True)
class Greet:
    """Worker -> broker: the device I own, and every attempt I still have.

    From here on the worker takes no assignment until it is welcomed: what it did not list it
    will never start.
    """

    kind: ClassVar[str] = "greet"

    protocol: int
    worker: str
    incarnation: str
    boot_id: str
    pid: int
    device: DeviceFacts
    max_jobs: int | None
    inventory: tuple[Held, ...]
    greeting: int = 0
    environments: tuple[Offer, ...] = ()

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
    temperature_c: int | None = None
    processes: tuple[DeviceProcess, ...] = ()


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
class Unknown:
    """Broker -> worker: I never heard of these attempts; put their results aside."""

    kind: ClassVar[str] = "unknown"

    epoch: int
    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class Declined:
    """Worker -> broker: these attempts were not started and never will be; place them anew."""

    kind: ClassVar[str] = "declined"

    epoch: int
    why: str
    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class Leaving:
    """Worker -> broker: I am about to end; give me no more jobs."""

    kind: ClassVar[str] = "leaving"


@dataclass(frozen=True, slots=True)
class Leave:
    """Broker -> worker: end your jobs, hand over their results, and go for good."""

    kind: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True)
class EndIdle:
    """Broker -> worker: end idle job processes; of one client only, if `session` is set."""

    kind: ClassVar[str] = "end-idle"

    session: str
