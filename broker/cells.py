"""What was measured of one kind of job: the unit that profiles learn, keep and forget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from grn_zmq.records import Scalar

By = tuple[tuple[str, Scalar], ...]
Key = tuple[str, By]


# There are very many jobs of few types, and most say nothing of their arguments.
_plain: dict[str, Key] = {}


def key_of(job_type: str, by: Mapping[str, Scalar]) -> Key:
    """Give the key of a job: its type and the arguments that change its need."""
    if not by:
        return _plain.setdefault(job_type, (job_type, ()))
    return job_type, tuple(sorted(by.items()))


class CellId(NamedTuple):
    """A job type with its arguments, on a model of device, on so many of them."""

    job_type: str
    by: By
    device_class: str
    devices: int = 1


@dataclass(slots=True)
class Cell:
    """Measurements of one cell. Peaks of successes are samples, those of failures bounds.

    `squares` is the sum of squared deviations from the mean (Welford). A new `version` of
    the function leaves the figures and lowers `trust`: how many of the runs still count.
    `stand_in_bytes` is what the cheaper stand-in took; the first real run replaces it.
    """

    version: str = ""
    runs: int = 0
    trust: int = 0
    mean_bytes: float = 0.0
    squares: float = 0.0
    max_bytes: int = 0
    need_bytes: int = 0
    bound_bytes: int = 0
    stand_in_bytes: int = 0
    ooms: int = 0
    failures: int = 0
    last_s: float = 0.0
    before_s: float = 0.0
    solo_s: float = 0.0
    utilisation: float = 0.0
    mean_utilisation: float = 0.0

    @property
    def duration_s(self) -> float:
        """The mean of the last two runs; 0 before the first."""
        return (self.last_s + (self.before_s or self.last_s)) / 2
