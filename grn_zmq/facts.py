"""What the broker tells people: rows of lists, everything about one job, why one waits."""

from dataclasses import dataclass, field

from .records import DeviceFacts, DeviceProcess, Scalar, Signed
from .requiring import require


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as lists show it; `age_s` ago it was accepted, `ended_s` ago it ended.

    `granted` are the instances of resources that it has, with the amount of each; a lease of
    a process that has not used its devices for a while is idle since `idle_s`.
    """

    number: int
    job_id: str
    name: str
    job_type: str
    kind: str
    state: str
    why: str
    device: str
    attempt: int
    priority: Signed
    measuring: bool
    predicted_bytes: int
    lease_bytes: int
    used_bytes: int
    peak_bytes: int
    wait_s: float
    run_s: float
    client_pid: int
    title: str = ""
    waits_for: str = ""
    detached: bool = False
    pid: int = 0
    age_s: float = 0.0
    ended_s: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    again_of: str = ""
    after: tuple[str, ...] = ()
    gpus: Signed = 1
    share: str = ""
    queue: str = ""
    resources: dict[str, str] = field(default_factory=dict)
    granted: dict[str, dict[str, str]] = field(default_factory=dict)
    environment: str = ""
    idle_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device as lists show it."""

    facts: DeviceFacts
    worker_pid: int
    max_jobs: int | None
    used_bytes: int
    foreign_bytes: int
    idle_bytes: int
    leased_bytes: int
    jobs: int
    measuring: str
    utilisation: float
    temperature_c: int | None = None
    processes: tuple[DeviceProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What is known of one cell: a job type, the arguments that matter, a device model."""

    job_type: str
    by: dict[str, Scalar]
    device_class: str
    devices: int
    runs: int
    predicted_bytes: int
    kind: str
    peak_bytes: int
    mean_bytes: int
    need_bytes: int
    bound_bytes: int
    ooms: int
    failures: int
    duration_s: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs that a reference means, in the order of their numbers; or why it means none."""

    ref: str
    job_ids: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class Undone:
    """A job to which what was asked for could not be done, and why."""

    job_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that was not the last one, and why it was not."""

    attempt: int
    device: str
    why: str
    predicted_bytes: int
    peak_bytes: int
    run_s: float


@dataclass(frozen=True, slots=True)
class JobDetail:
    """What `grn show` says of a job beside its row.

    `begin_in_s` is how long it has to wait for its begin time still; `after` are the jobs that
    it still waits for. `can_retry` says that its arguments are still here.
    """

    by: dict[str, Scalar]
    policy: str
    memory_bytes: int
    exclusive: bool
    parent: str
    timeout_s: float | None
    time_limit_s: float | None
    grace_s: float
    retries: int
    retried: int
    retry_on: tuple[str, ...]
    oom_retries: int
    ooms: int
    enforce: bool
    version: str
    on_end: str
    variables: dict[str, str] = field(repr=False)
    held: bool
    after: tuple[str, ...]
    begin_in_s: float | None
    error_type: str
    error_text: str
    last_lines: str
    fit: int
    can_retry: bool
    tried: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class DeviceReason:
    """A device as a waiting job sees it. What is free is total less foreign, idle and charged.

    `leased_bytes` is what jobs there were promised, `measured_bytes` what they use;
    `charged_bytes` adds up, job by job, whichever is more. It needs `needed_bytes`, and
    `headroom_bytes` beside it where it would share.
    """

    device: str
    name: str
    total_bytes: int
    foreign_bytes: int
    idle_bytes: int
    leased_bytes: int
    measured_bytes: int
    charged_bytes: int
    free_bytes: Signed
    needed_bytes: int
    headroom_bytes: int
    jobs: int
    max_jobs: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ResourceReason:
    """A resource that a waiting job needs: how much, and who has the rest (job numbers)."""

    name: str
    needed: str
    left: str
    capacity: str
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: the limit that binds (`code`), in words, and what will end it.

    `blockers` are the numbers of the jobs it waits for, where there are such.
    """

    job_id: str
    number: int
    state: str
    code: str
    text: str
    until: str
    blockers: tuple[int, ...]
    devices: tuple[DeviceReason, ...]
    resources: tuple[ResourceReason, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue: what it has and what is left of it, instance by instance, and its jobs.

    The one without name is the broker itself. One that is `closing` was deleted and goes with
    its last running job.
    """

    name: str
    capacity: dict[str, dict[str, str]]
    left: dict[str, dict[str, str]]
    prefix: tuple[str, ...]
    max_jobs: int | None
    closing: bool
    queued: int
    running: int
    ended: int


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """An environment, and the devices whose workers offer it."""

    name: str
    kind: str
    text: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellRow:
    """What was measured of one cell, whole: for export and import; see `broker/cells.py`."""

    job_type: str
    by: dict[str, Scalar]
    device_class: str
    devices: int
    version: str
    runs: int
    trust: int
    mean_bytes: float
    squares: float
    max_bytes: int
    need_bytes: int
    bound_bytes: int
    stand_in_bytes: int
    ooms: int
    failures: int
    last_s: float
    before_s: float
    solo_s: float
    utilisation: float
    mean_utilisation: float

    def __post_init__(self) -> None:
        require(self.job_type != "" and self.device_class != "", "a cell names what it is of")
        require(self.trust <= self.runs, "no more runs count than there were")
        for number in (self.mean_bytes, self.squares, self.last_s, self.before_s, self.solo_s):
            require(0 <= number < 2.0**100, f"{number:g} cannot have been measured")


@dataclass(frozen=True, slots=True)
class Scene:
    """The whole of it at a glance: counts, devices, and a part of the list of live jobs.

    `ended` counts those that ended since the broker started: two looks tell how many do so in
    a second.
    """

    paused: bool
    stopping: bool
    queued: int
    running: int
    ended: int
    first: int
    rows: tuple[JobRow, ...]
    devices: tuple[DeviceRow, ...]
