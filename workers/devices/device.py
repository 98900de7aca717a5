"""What a device is to its worker, whoever made it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from grn_zmq.errors import GrnError

# JAX and TensorFlow take most of a card at their first use, whatever the job needs.
# Given to a job unless its user has set them.
FRAMEWORK_DEFAULTS: Final[Mapping[str, str]] = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


class DeviceUnreadable(GrnError):
    """A device did not answer this time; the next poll may succeed.

    `lost` says that it will not: the driver has given the device up.
    """

    def __init__(self, device: str, reason: str, *, lost: bool = False) -> None:
        super().__init__(f"{device} cannot be read: {reason}")
        self.device = device
        self.reason = reason
        self.lost = lost


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What never changes about a device.

    `device_class` is what profiles are kept under: the same job takes more on a bigger
    card, so model and memory are both part of it. It may drive a `display`; `links` says how
    far other devices are from it, by uuid: the less, the closer.
    """

    index: int
    name: str
    uuid: str
    total_bytes: int
    kind: str
    device_class: str
    display: bool = False
    links: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes of one job: every descendant of `root_pid`.

    The root is the keeper and not counted itself, except for an inline job, whose root
    is the caller's own process. `baseline_bytes` is what the job process had in memory
    before its first job. Its lease has devices as many as `spread`. If it was forked from a
    zygote and so shares memory with it, `faults` says how many faults it had by then.
    """

    root_pid: int
    main_pid: int
    baseline_bytes: int = 0
    counts_root: bool = False
    spread: int = 1
    faults: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a device.

    `by_tree` is the level to take as each job's use. For a key that is not in `seen` it
    is an even share of what could not be told apart: right for room, wrong for learning.
    `processes` are those that the device shows. On a GPU strangers are among them, if they
    compute: those in `owners` belong to the tree it names.
    """

    used_bytes: int
    foreign_bytes: int
    by_tree: Mapping[str, int]
    utilisation: float
    seen: frozenset[str]
    temperature_c: int | None = None
    processes: Mapping[int, int] = field(default_factory=dict)
    owners: Mapping[int, str] = field(default_factory=dict)


class Device(Protocol):
    """One GPU or one share of the machine's memory."""

    @property
    def info(self) -> DeviceInfo:
        """What never changes about it."""

    def sample(self, trees: Mapping[str, Tree]) -> Sample:
        """Look at the device once.

        Raises:
            DeviceUnreadable: It did not answer; nothing was learned.
        """

    def held_bytes(self, tree: Tree) -> int:
        """Return what this tree holds right now; above its limit it is not used again.

        Raises:
            DeviceUnreadable: It did not answer: take the tree for a holder.
        """

    def accounted_bytes(self, tree: Tree) -> int:
        """Return the most that one process of a tree has held, by the driver's own account.

        Only what is more than at the last question: a process that is used again has its
        old peak for ever. 0 where no account is kept.
        """

    def close(self) -> None:
        """Let go of it. May be called twice."""
