"""What may be set about the broker. Read once by `__main__`, then passed on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Settings:
    """What users may want to set comes first; the others are for tests and simulation."""

    # How probable it may be that the jobs on a device together outgrow it. Between 1 and 5 %
    # makespans hardly differ; without any headroom many times more jobs run out of memory.
    overflow: float = 0.05
    # A command to run, or a URL to post to, whenever a job has ended; "" for none.
    on_end: str = ""
    # What jobs outside of queues may declare to need: instances and amounts by resource.
    capacity: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {"cpu": {"0": "16"}}
    )
    # A measuring run that has not grown for this long, and for as long as it grew, has settled.
    settle_s: float = 60.0
    # So long after a start, or after a worker joined, others may be about to join as well.
    gather_s: float = 3.0
    # Five missed heartbeats of a second each.
    silence_s: float = 5.0
    # How long the next incarnation of a dead worker is waited for, and after a start of the
    # broker whoever was there before: jobs may have ended meanwhile, and are not given up.
    return_s: float = 8.0
    return_after_start_s: float = 60.0
    # A client whose connection alone is lost; and one that a broker before this one had.
    away_s: float = 30.0
    # Programs that may be connected at once; each costs some memory and a descriptor or two.
    most_clients: int = 4096
    # Calls that take longer than this gain nothing by following each other; and what those
    # that do may take together, for others may be waiting for the device.
    short_s: float = 0.01
    train_s: float = 0.1
    # What may wait at most.
    most_jobs: int = 200_000
    most_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        if not 0.0001 <= self.overflow <= 0.5:
            raise ValueError(f"overflow is a probability from 0.0001 to 0.5: {self.overflow}")

    @property
    def sigmas(self) -> float:
        """How many standard deviations of headroom that probability asks for."""
        return NormalDist().inv_cdf(1 - self.overflow)
