"""What happened in one run, for whoever wants figures or pictures of it."""

import math
from dataclasses import dataclass, field

from .jobs import SimJob, Stream


@dataclass(slots=True)
class Life:
    """What became of one job, over all its submissions and attempts."""

    job: SimJob
    submissions: int = 0
    attempts: int = 0
    failures: int = 0
    first_start_s: float = math.nan
    ended_s: float = math.nan
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """One attempt: what was promised against what it will need."""

    lease_bytes: int
    peak_bytes: int
    measuring: bool


@dataclass(slots=True)
class Story:
    """All that happened. `memory` has, for each device, when it held how many bytes."""

    stream: Stream
    policy: str
    lives: list[Life]
    memory: list[list[tuple[float, int]]]
    promises: list[Promise] = field(default_factory=list)
    kills: int = 0
    innocent_kills: int = 0
    wasted_s: float = 0.0
    events: int = 0
