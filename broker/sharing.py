"""Whether jobs that share a device of some model get more done than one after the other.

A suspicion is cheap: runs in company look slow beside the same jobs alone. But jobs get longer
for many reasons, so it is put to the test: for some runs nobody shares, and only if the same
jobs then get more done does it stay that way.
"""

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .cells import Key

# Enough shared runs to suspect something, and as many as count.
FEWEST: Final = 20
WINDOW: Final = 50
# Less than this many jobs on average is no company to speak of.
COMPANY: Final = 1.2
# Shorter runs are mostly the start of a process, which the device has no part in.
LEAST_S: Final = 5.0
# Together they must be at least this much faster than one alone.
LEAST_GAIN: Final = math.log(1.02)
# Runs of a test, at least with something to compare, and at most in all.
TEST_RUNS: Final = 10
LONGEST_TEST: Final = 40
# After a test that cleared sharing, and after a loss, so many runs until the next look.
PEACE: Final = 300
TRY_AGAIN_AFTER: Final = 400
# Kinds of job whose last run times are remembered, and how many of each.
MOST_KINDS: Final = 1000
RECENT: Final = 3


class Phase(StrEnum):
    SHARES = "shares"
    TESTS = "tests"
    LOSES = "loses"


@dataclass(slots=True)
class Shared:
    """What is known of one device class. Times are logarithms, per head of the company."""

    phase: Phase = Phase.SHARES
    runs: int = 0
    peace: int = 0
    gains: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    per_head: dict[Key, deque[float]] = field(default_factory=dict)
    solo_gains: list[float] = field(default_factory=list)


class Sharing:
    """Per device class: runs in company against the same jobs alone."""

    def __init__(self) -> None:
        self._classes: dict[str, Shared] = {}

    def pays(self, device_class: str) -> bool:
        shared = self._classes.get(device_class)
        return shared is None or shared.phase is Phase.SHARES

    def observe(
        self, key: Key, device_class: str, company: float, solo_s: float | None, run_s: float
    ) -> None:
        """Learn from a run beside `company - 1` others on average.

        Args:
            solo_s: What such a run takes alone, as far as is known.
        """
        shared = self._classes.setdefault(device_class, Shared())
        shared.runs += 1
        match shared.phase:
            case Phase.SHARES:
                self._while_sharing(shared, key, company, solo_s, run_s)
            case Phase.TESTS:
                self._while_testing(shared, key, company, run_s)
            case Phase.LOSES if shared.runs >= TRY_AGAIN_AFTER:
                self._classes[device_class] = Shared()

    def _while_sharing(
        self, shared: Shared, key: Key, company: float, solo_s: float | None, run_s: float
    ) -> None:
        if company < COMPANY or run_s < LEAST_S:
            return
        recent = shared.per_head.pop(key, None) or deque(maxlen=RECENT)
        recent.append(math.log(run_s / company))
        shared.per_head[key] = recent
        if len(shared.per_head) > MOST_KINDS:
            del shared.per_head[next(iter(shared.per_head))]
        if solo_s:
            shared.gains.append(math.log(company * solo_s / run_s))
        enough = len(shared.gains) >= FEWEST and shared.runs >= shared.peace
        if enough and _surely_below(shared.gains, LEAST_GAIN):
            shared.phase, shared.runs, shared.solo_gains = Phase.TESTS, 0, []

    def _while_testing(self, shared: Shared, key: Key, company: float, run_s: float) -> None:
        if company < COMPANY and run_s >= LEAST_S and key in shared.per_head:
            shared.solo_gains.append(_mean(shared.per_head[key]) - math.log(run_s))
        enough = len(shared.solo_gains) >= TEST_RUNS
        if enough and _surely_below([-one for one in shared.solo_gains], LEAST_GAIN):
            shared.phase, shared.runs = Phase.LOSES, 0
        elif enough or shared.runs >= LONGEST_TEST:
            shared.phase, shared.runs, shared.peace = Phase.SHARES, 0, PEACE
            shared.gains.clear()


def _mean(logs: Collection[float]) -> float:
    return sum(logs) / len(logs)


def _surely_below(logs: Collection[float], limit: float) -> bool:
    """Whether the mean is below by more than chance would have it."""
    count, mean = len(logs), _mean(logs)
    if mean >= limit:
        return False
    variance = sum((one - mean) ** 2 for one in logs) / (count - 1)
    return mean + math.sqrt(variance / count) < limit
