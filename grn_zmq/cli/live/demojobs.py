"""The toy jobs of `grn demo`: they take memory, hold it for a while, and give it back."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...decorator import JobFunction, job
from ...units import MIB

# Memory comes in so many parts, as in programs that load one thing after the other.
STEPS: Final = 4
# The part of a run in which it comes.
LOADING: Final = 0.2


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of toy job: what it takes, and how long."""

    name: str
    memory_bytes: int
    seconds: float

    @property
    def job(self) -> "JobFunction[[int, float], tuple[float, float]]":
        """The function whose calls are such jobs."""
        return job(type=f"demo::{self.name}", name=self.name)(work)


KINDS: Final[Sequence[Kind]] = (
    Kind("small", 24 * MIB, 1.0),
    Kind("medium", 48 * MIB, 2.0),
    Kind("large", 96 * MIB, 3.0),
)


def work(memory_bytes: int, seconds: float) -> tuple[float, float]:
    """Hold so much memory for so long; return when it began and ended, on one clock for all.

    It sleeps instead of computing, so that as many fit as memory allows, also on a laptop.
    """
    began = time.monotonic()
    held = []
    for _ in range(STEPS):
        held.append(bytearray(b"\1") * (memory_bytes // STEPS))
        time.sleep(seconds * LOADING / STEPS)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    del held
    return began, time.monotonic()
