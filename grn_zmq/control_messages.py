"""What people ask and order through commands, and what the broker answers them.

All of it may be asked again without harm: a broker may die before it has answered.
"""

from dataclasses import dataclass
from typing import ClassVar

from .amounts import parse_amount
from .facts import (
    CellRow,
    EnvironmentRow,
    Found,
    JobDetail,
    JobRow,
    QueueRow,
    Reason,
    Scene,
    Undone,
)
from .limits import MAX_PRIORITY
from .records import Blob, JobSpec, Signed
from .requiring import require, require_id, require_name, require_word


@dataclass(frozen=True, slots=True)
class FindJobs:
    """Client -> broker: which jobs do these references mean? (`12`, `3-7`, `@`, a name, …)"""

    kind: ClassVar[str] = "find-jobs"

    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobsFound:
    """Broker -> client: what each of them means."""

    kind: ClassVar[str] = "jobs-found"

    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class AskJob:
    """Client -> broker: tell me all about this job."""

    kind: ClassVar[str] = "ask-job"

    job_id: str


@dataclass(frozen=True, slots=True)
class JobIs:
    """Broker -> client: all about one job."""

    kind: ClassVar[str] = "job-is"

    row: JobRow
    detail: JobDetail


@dataclass(frozen=True, slots=True)
class AskWhy:
    """Client -> broker: what does this job wait for?"""

    kind: ClassVar[str] = "ask-why"

    job_id: str


@dataclass(frozen=True, slots=True)
class WhyIs:
    """Broker -> client: what it waits for, with the figures."""

    kind: ClassVar[str] = "why-is"

    reason: Reason


@dataclass(frozen=True, slots=True)
class AskScene:
    """Client -> broker: show me all at a glance, and so many live jobs from the `first` on."""

    kind: ClassVar[str] = "ask-scene"

    first: int
    most: int


@dataclass(frozen=True, slots=True)
class SceneIs:
    """Broker -> client: all at a glance."""

    kind: ClassVar[str] = "scene-is"

    scene: Scene


@dataclass(frozen=True, slots=True)
class Hold:
    """Client -> broker: do not start these jobs (`held`), or let them start again."""

    kind: ClassVar[str] = "hold"

    job_ids: tuple[str, ...]
    held: bool


@dataclass(frozen=True, slots=True)
class Prioritise:
    """Client -> broker: give these waiting jobs another priority."""

    kind: ClassVar[str] = "prioritise"

    job_ids: tuple[str, ...]
    priority: Signed

    def __post_init__(self) -> None:
        require(abs(self.priority) <= MAX_PRIORITY, f"priority is within ±{MAX_PRIORITY}")


@dataclass(frozen=True, slots=True)
class Pause:
    """Client -> broker: start no more jobs (`paused`), or go on. What runs runs on."""

    kind: ClassVar[str] = "pause"

    paused: bool


@dataclass(frozen=True, slots=True)
class Clean:
    """Client -> broker: forget these ended jobs, with their values and what they printed."""

    kind: ClassVar[str] = "clean"

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acted:
    """Broker -> client: it is done for these, and could not be done for those."""

    kind: ClassVar[str] = "acted"

    done: tuple[str, ...]
    undone: tuple[Undone, ...]


@dataclass(frozen=True, slots=True)
class AskInputs:
    """Client -> broker: give me what this detached job was made of, to submit it anew."""

    kind: ClassVar[str] = "ask-inputs"

    job_id: str


@dataclass(frozen=True, slots=True)
class InputsAre:
    """Broker -> client: the description of a job, with its payload, and what it shares."""

    kind: ClassVar[str] = "inputs-are"

    spec: JobSpec
    blobs: tuple[Blob, ...]


@dataclass(frozen=True, slots=True)
class AskCells:
    """Client -> broker: give me all that was measured, whole, from the row `after` on."""

    kind: ClassVar[str] = "ask-cells"

    after: int


@dataclass(frozen=True, slots=True)
class CellsAre:
    """Broker -> client: the cells asked for; `more` if the list goes on."""

    kind: ClassVar[str] = "cells-are"

    rows: tuple[CellRow, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class PutCells:
    """Client -> broker: take these measurements instead of what you have of such cells."""

    kind: ClassVar[str] = "put-cells"

    rows: tuple[CellRow, ...]


@dataclass(frozen=True, slots=True)
class CreateQueue:
    """Client -> broker: make a queue with these capacities, by resource and instance.

    Its jobs are commands that begin with the `prefix`, `max_jobs` of them at once. The same
    `request` said again is the same queue.
    """

    kind: ClassVar[str] = "create-queue"

    request: str
    name: str
    capacity: dict[str, dict[str, str]]
    prefix: tuple[str, ...]
    max_jobs: int | None

    def __post_init__(self) -> None:
        require_id(self.request, "request")
        require(self.name != "", "a queue has a name")
        require_word(self.name)
        for name, instances in self.capacity.items():
            require_name(name)
            for instance, amount in instances.items():
                require_word(instance)
                require(parse_amount(amount) >= 0, f"{amount:.40} of {name}")


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Client -> broker: cancel what waits in a queue, and let it go once nothing runs.

    With `end_running` what runs is ended too.
    """

    kind: ClassVar[str] = "delete-queue"

    name: str
    end_running: bool


@dataclass(frozen=True, slots=True)
class AskQueues:
    """Client -> broker: what do the queues have? All of them, or that of this name."""

    kind: ClassVar[str] = "ask-queues"

    name: str


@dataclass(frozen=True, slots=True)
class QueuesAre:
    """Broker -> client: the queues asked for, or the one that was made."""

    kind: ClassVar[str] = "queues-are"

    rows: tuple[QueueRow, ...]


@dataclass(frozen=True, slots=True)
class AskEnvironments:
    """Client -> broker: which environments are offered?"""

    kind: ClassVar[str] = "ask-environments"


@dataclass(frozen=True, slots=True)
class EnvironmentsAre:
    """Broker -> client: the environments that workers offer now."""

    kind: ClassVar[str] = "environments-are"

    rows: tuple[EnvironmentRow, ...]


Order = (
    FindJobs
    | AskJob
    | AskWhy
    | AskScene
    | Hold
    | Prioritise
    | Pause
    | Clean
    | AskInputs
    | AskCells
    | PutCells
    | CreateQueue
    | DeleteQueue
    | AskQueues
    | AskEnvironments
)
Answer = (
    JobsFound
    | JobIs
    | WhyIs
    | SceneIs
    | Acted
    | InputsAre
    | CellsAre
    | QueuesAre
    | EnvironmentsAre
)
