"""A job as physics sees it, and a stream of them: what a policy can only learn by running."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from grn_zmq.records import Scalar

from .physics import Law

GIB: Final = 1 << 30


class Step(NamedTuple):
    """From this share of its work on, a job holds so many bytes."""

    progress: float
    used_bytes: int


@dataclass(frozen=True, slots=True)
class SimJob:
    """One job; `solo_s` is its length when alone, `bandwidth` its use of the memory bus."""

    number: int
    job_type: str
    by: Mapping[str, Scalar]
    arrival_s: float
    solo_s: float
    steps: tuple[Step, ...]
    utilisation: float
    bandwidth: float
    version: str = ""
    peak_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        assert self.steps[0].progress == 0.0, "a process holds memory from its start"
        assert all(a.progress < b.progress for a, b in pairwise(self.steps))
        object.__setattr__(self, "peak_bytes", max(step.used_bytes for step in self.steps))

    @property
    def byte_seconds(self) -> float:
        """Its real memory over its length alone."""
        ends = [*(step.progress for step in self.steps[1:]), 1.0]
        spans = zip(self.steps, ends, strict=True)
        return self.solo_s * sum(step.used_bytes * (end - step.progress) for step, end in spans)


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs in the order of their arrival, and the devices they arrive at."""

    name: str
    jobs: tuple[SimJob, ...]
    devices: int
    device_bytes: int
    law: Law
    foreign: bool = False
    notes: tuple[str, ...] = ()

    @property
    def work_s(self) -> float:
        """What all devices together need for the work alone, if none of it is wasted."""
        memory = sum(job.byte_seconds for job in self.jobs) / self.device_bytes
        compute = sum(job.utilisation * job.solo_s for job in self.jobs) / self.law.ceiling
        return max(memory, compute) / self.devices

    @property
    def bound_s(self) -> float:
        """No schedule can end earlier than this."""
        return max(self.work_s, max(job.arrival_s + job.solo_s for job in self.jobs))

    def at_load(self, load: float) -> "Stream":
        """The same stream, arriving so fast that it offers `load` times what devices can do."""
        first = min(job.arrival_s for job in self.jobs)
        last = max(job.arrival_s for job in self.jobs)
        scale = self.work_s / load / max(last - first, 1e-9)
        jobs = tuple(
            replace(job, arrival_s=(job.arrival_s - first) * scale) for job in self.jobs
        )
        return replace(self, jobs=jobs)
