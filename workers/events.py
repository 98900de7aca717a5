"""What happens to a worker's core besides messages: processes end, the device is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grn_zmq.frameworks import Counters


@dataclass(frozen=True, slots=True)
class Returned:
    """A job process told how its function ended.

    `asked_bytes` is what it could not get, if it ran out of memory, else None. `counters`
    are its frameworks', None unless the device was read in the same moment; `peak_bytes`
    is the most it ever had, where somebody keeps account of it. A large value is in the
    parcel that `token` names.
    """

    outcome: str
    exit_status: int | None
    error_type: str
    error_text: str
    payload: bytes = field(repr=False)
    reusable: bool
    asked_bytes: int | None = None
    counters: Counters | None = None
    peak_bytes: int = 0
    error_bases: tuple[str, ...] = ()
    token: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """A job process and its whole tree are proved dead.

    `kernel_oom` says that the kernel has killed for lack of memory about when it died.
    """

    exit_status: int | None
    signal: int | None
    peak_bytes: int = 0
    kernel_oom: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """What the device shows now.

    `pids` has the process in which the body of each job runs. `processes` are those to be
    listed, with what they use; those in `owners` are of the job or idle tree it names, all
    others are strangers.
    """

    used_bytes: int
    foreign_bytes: int
    idle_bytes: int
    utilisation: float
    by_job: Mapping[str, int]
    seen: frozenset[str]
    temperature_c: int | None = None
    pids: Mapping[str, int] = field(default_factory=dict)
    processes: Mapping[int, int] = field(default_factory=dict)
    owners: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What jobs of this worker use on another device, that their leases have too."""

    device: str
    by_job: Mapping[str, int]
    seen: frozenset[str]
