"""How much is measured: a trial of the machinery, a minute, or as long as it takes."""

from dataclasses import dataclass
from typing import Final

from ..units import MIB

# As many as the bare echo has, whatever the machine.
WORKERS: Final = 2
# What is in flight at once where the echo is measured for its rate.
WINDOW: Final = 1_000
PIECE_BYTES: Final = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of everything, and how often."""

    name: str
    # Samples of each figure, of which the median counts.
    repeats: int
    # Jobs of one burst; fewer where those would take longer than so many seconds.
    burst: int
    burst_s: float
    # One in flight, for each sample.
    calls: int
    spawns: int
    spawn_map: int
    # Payloads of 1 MiB in flight together, and the bytes of the large one.
    pieces: int
    large_bytes: int
    # Jobs that wait: many, how many of those are waited for, few, and how often it is tried.
    queued: int
    drained: int
    queued_few: int
    fills: int
    # Programs, from nothing running to their first result.
    starts: int
    commands: int
    # Processor time is taken over so many seconds, with so many idle workers or running jobs.
    watch_s: float
    idle_workers: int
    running: int
    # One broker each.
    worker_counts: tuple[int, ...]
    echo_jobs: int
    echo_calls: int
    # No measurement of one contender may take longer.
    deadline_s: float


QUICK: Final = Size(
    name="quick",
    repeats=2,
    burst=100,
    burst_s=1.0,
    calls=20,
    spawns=5,
    spawn_map=100,
    pieces=4,
    large_bytes=4 * MIB,
    queued=300,
    drained=300,
    queued_few=100,
    fills=1,
    starts=1,
    commands=5,
    watch_s=0.3,
    idle_workers=2,
    running=2,
    worker_counts=(1, 2),
    echo_jobs=1_000,
    echo_calls=50,
    deadline_s=60.0,
)
SHORT: Final = Size(
    name="short",
    repeats=5,
    burst=500,
    burst_s=2.0,
    calls=100,
    spawns=50,
    spawn_map=500,
    pieces=50,
    large_bytes=64 * MIB,
    queued=5_000,
    drained=1_000,
    queued_few=300,
    fills=1,
    starts=3,
    commands=12,
    watch_s=0.7,
    idle_workers=8,
    running=16,
    worker_counts=(1, 2, 4),
    echo_jobs=3_000,
    echo_calls=200,
    deadline_s=60.0,
)
FULL: Final = Size(
    name="full",
    repeats=5,
    burst=5_000,
    burst_s=10.0,
    calls=500,
    spawns=200,
    spawn_map=10_000,
    pieces=100,
    large_bytes=256 * MIB,
    queued=100_000,
    drained=100_000,
    queued_few=1_000,
    fills=5,
    starts=5,
    commands=300,
    watch_s=3.0,
    idle_workers=8,
    running=100,
    worker_counts=(1, 2, 4, 8),
    echo_jobs=6_000,
    echo_calls=300,
    deadline_s=900.0,
)
SIZES: Final = {one.name: one for one in (QUICK, SHORT, FULL)}
