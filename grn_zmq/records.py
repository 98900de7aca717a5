"""What messages are made of: jobs, attempts, results and devices as they travel.

Each record checks its own closed sets, so that a wrong word is refused where it enters.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from .amounts import parse_amount
from .limits import (
    DEFAULT_GRACE_S,
    MAX_DEVICES,
    MAX_NAME,
    MAX_PRIORITY,
    MAX_RETRIES,
    MAX_SECONDS,
)
from .requiring import require, require_id, require_name, require_token, require_word
from .tails import NO_TAIL, Tail

KINDS: Final = frozenset({"call", "command", "inline", "lease"})
POLICIES: Final = frozenset({"spread", "pack"})
STREAMS: Final = frozenset({"stdout", "stderr"})
OUTCOMES: Final = frozenset(
    {"succeeded", "failed", "killed", "oom", "timed-out", "cancelled", "lost", "expired"}
)
HOWS: Final = frozenset({"interrupt", "terminate", "kill"})
# What a worker has of an attempt: its body runs (or waits for blobs), it has ended, or it was
# running in an incarnation of the worker that died, and so may have run.
HELD: Final = frozenset({"running", "finished", "interrupted"})

Scalar = int | float | str | bool
# Every other number counts something, and is refused below zero.
Signed = Annotated[int, "may be below zero"]


# Marks a field that the protocol before this one did not have.
ADDED: Final = {"added": True}


def added(default: object) -> Any:
    """A field that the protocol before this one did not have; peers of it mean the default."""
    return field(default=default, metadata=ADDED)


def require_scalar(value: Scalar) -> None:
    """A value of `by` that can travel, and can be compared with others."""
    if isinstance(value, str):
        require(len(value) <= MAX_NAME, f"a text has at most {MAX_NAME} characters")
        require(value.isprintable(), f"{value[:40]!r} is not printable")
    else:
        require(-(2**63) <= value < 2**63, f"{value!r:.40} is not a number of 64 bits")


@dataclass(frozen=True, slots=True)
class Blob:
    """What many jobs share, named by its digest: a function, or a context."""

    digest: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job as its client describes it. Everything but the payload is in clear.

    `timeout_s` bounds the wait for a device, `time_limit_s` each run. Of a large payload only
    the `token` travels: it names a file (`parcels.py`). It starts once the jobs in `after` have
    succeeded and those in `after_any` have ended, `begin_s` after it was accepted at the
    earliest. `title` is what people know a command by; `variables` are added to its
    environment, `{gpu}` and the like in them replaced as it starts. `again_of` is the job that
    this one was made from, once that had ended.

    It has so many `gpus` (0: none, -1: all), several of them whole, of one the `share` where
    that is declared; `among` are the indices or uuids of those it may have. `resources` are
    exact amounts of what its `queue` has (without name: the broker). It runs in the named
    `environment`.
    """

    job_id: str
    job_type: str
    name: str
    kind: str
    by: dict[str, Scalar]
    policy: str
    function: str
    context: str
    parent: str
    pin: str
    stdin: str
    detached: bool
    has_stand_in: bool
    reuse: bool
    version: str
    memory_bytes: int
    priority: Signed
    oom_retries: int
    enforce: bool
    payload: bytes = field(repr=False)
    timeout_s: float | None = None
    time_limit_s: float | None = None
    retries: int = 0
    retry_on: tuple[str, ...] = ()
    grace_s: float = DEFAULT_GRACE_S
    token: str = ""
    title: str = ""
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    after: tuple[str, ...] = ()
    after_any: tuple[str, ...] = ()
    begin_s: float | None = None
    held: bool = False
    exclusive: bool = False
    on_end: str = ""
    again_of: str = ""
    gpus: Signed = 1
    share: str = ""
    among: tuple[str, ...] = ()
    queue: str = ""
    resources: dict[str, str] = field(default_factory=dict)
    environment: str = ""

    def __post_init__(self) -> None:
        require_id(self.job_id)
        require(self.kind in KINDS, f"unknown kind of job {self.kind[:40]!r}")
        require(self.policy in POLICIES, f"unknown policy {self.policy[:40]!r}")
        require(0 < len(self.job_type) <= MAX_NAME, "a job type has 1 to 4096 characters")
        require(len(self.name) <= MAX_NAME, "a name has at most 4096 characters")
        require(len(self.version) <= MAX_NAME, "a version has at most 4096 characters")
        require(0 <= self.memory_bytes < 2**63, "memory is a number of bytes, or 0")
        require(abs(self.priority) <= MAX_PRIORITY, f"priority is within ±{MAX_PRIORITY}")
        require(0 <= self.oom_retries <= MAX_RETRIES, f"at most {MAX_RETRIES} retries")
        require(0 <= self.retries <= MAX_RETRIES, f"at most {MAX_RETRIES} retries")
        require(sum(map(len, self.retry_on)) <= MAX_NAME, "the causes of retries are too long")
        for seconds in (self.timeout_s, self.time_limit_s, self.grace_s, self.begin_s):
            require(seconds is None or 0 <= seconds <= MAX_SECONDS, f"{seconds} seconds")
        if self.token:
            require_token(self.token)
        for value in self.by.values():
            require_scalar(value)
        if self.parent:
            require_id(self.parent, "parent's job id")
        require(len(self.title) <= MAX_NAME, f"a title has at most {MAX_NAME} characters")
        require(len(self.on_end) <= MAX_NAME, f"a hook has at most {MAX_NAME} characters")
        for job_id in (*self.after, *self.after_any):
            require_id(job_id, "job id to wait for")
        if self.again_of:
            require_id(self.again_of, "job id to run again")
        self._check_declared()

    def _check_declared(self) -> None:
        require(-1 <= self.gpus <= MAX_DEVICES, f"{self.gpus} GPUs")
        if self.share:
            share = parse_amount(self.share)
            require(self.gpus == 1 and 0 < share <= 1, f"a share of {self.share:.40} GPUs")
        for one in (self.queue, self.environment, *self.among):
            require_word(one)
        require("gpu" not in self.resources, "of devices a job says how many: gpus, share")
        for name, amount in self.resources.items():
            require_name(name)
            require(parse_amount(amount) > 0, f"{amount:.40} of {name}")


@dataclass(frozen=True, slots=True)
class Leased:
    """One device of a lease. The first of several is that of the worker that runs the job."""

    uuid: str
    index: int
    label: str


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a job inside its lease, as the worker needs to know it.

    `enforce` caps it to its lease; a `young` type is looked at more often. `devices` are those
    of its lease, none if it needs none; `granted` are, by resource, the instances it has and
    how much of each. The words of its queue's `prefix` come before a command. The calls of its
    `tail` follow it.
    """

    job_id: str
    attempt: int
    job_type: str
    session: str
    kind: str
    lease_bytes: int
    stand_in: bool
    function: str
    context: str
    stdin: str
    reuse: bool
    pid: int
    enforce: bool
    young: bool
    payload: bytes = field(repr=False)
    detached: bool = False
    time_limit_s: float | None = None
    grace_s: float = DEFAULT_GRACE_S
    token: str = ""
    number: int = 0
    name: str = ""
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    devices: tuple[Leased, ...] = ()
    granted: dict[str, dict[str, str]] = field(default_factory=dict)
    environment: str = ""
    prefix: tuple[str, ...] = ()
    tail: Tail = added(NO_TAIL)


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt whose body starts, or did so `ran_s` ago; `environment` names its devices."""

    job_id: str
    attempt: int
    device: str
    stand_in: bool
    environment: dict[str, str]
    ran_s: float = 0.0
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that an attempt wrote to one of its streams."""

    job_id: str
    attempt: int
    stream: str
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        require(self.stream in STREAMS, f"unknown stream {self.stream[:40]!r}")


@dataclass(frozen=True, slots=True)
class Released:
    """An inline attempt whose body has ended, by an exception if `failed`."""

    job_id: str
    attempt: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended, as its worker saw it.

    `need_bytes` is what it would have managed with, where its framework tells (else 0);
    `asked_bytes` what it could not get when it ran out of memory. `error_bases` are the names
    of its exception's class and all its bases; `last_lines` the end of what it printed, unless
    it succeeded.
    """

    job_id: str
    attempt: int
    outcome: str
    exit_status: int | None
    signal: int | None
    peak_bytes: int
    need_bytes: int
    asked_bytes: int
    utilisation: float
    mean_utilisation: float
    seen: bool
    run_s: float
    error_type: str
    error_text: str
    payload: bytes = field(repr=False)
    error_bases: tuple[str, ...] = ()
    last_lines: str = ""
    token: str = ""
    token_bytes: int = 0

    def __post_init__(self) -> None:
        if self.token:
            require_token(self.token)
        require(self.outcome in OUTCOMES, f"unknown outcome {self.outcome[:40]!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, as its client is told.

    `predicted_bytes` is what was expected when it was placed (0 if nothing was), `fit` how
    many such jobs its device holds at once by what is known now.
    """

    job_id: str
    outcome: str
    exit_status: int | None
    signal: int | None
    device: str
    peak_bytes: int
    seen: bool
    wait_s: float
    run_s: float
    attempts: int
    predicted_bytes: int
    fit: int
    error_type: str
    error_text: str
    need_bytes: int
    largest_bytes: int
    payload: bytes = field(repr=False)
    last_lines: str = ""
    token: str = ""
    token_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """What one running attempt uses on a device now; `pid` is that of its body.

    `device` is the uuid of another device of its lease than that of the reporting worker.
    """

    job_id: str
    attempt: int
    used_bytes: int
    pid: int = 0
    device: str = ""


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that the device shows; `job_id` is empty for a stranger."""

    pid: int
    used_bytes: int
    job_id: str


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a device is; fixed for the life of its worker.

    It may be the one that drives the `display`. `links` says how far other devices are from
    it, by uuid: the less, the closer.
    """

    index: int
    name: str
    uuid: str
    kind: str
    device_class: str
    total_bytes: int
    display: bool = False
    links: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offer:
    """An environment that a worker offers: its name, what kind it is, and what it does."""

    name: str
    kind: str
    text: str

    def __post_init__(self) -> None:
        require_word(self.name)


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number under which the broker lists an accepted job."""

    job_id: str
    number: int


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One attempt of one job."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Held:
    """An attempt that a greeting worker still answers for, and what it has of it."""

    job_id: str
    attempt: int
    state: str = "running"

    def __post_init__(self) -> None:
        require(self.state in HELD, f"unknown state of an attempt {self.state[:40]!r}")
