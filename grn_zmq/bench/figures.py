"""What was measured, and the figures that are made of it."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

# What we and the bare echo are called beside the peers.
OURS: Final = "ours"
ECHO: Final = "echo"
# On a quiet machine the echo varies by a few tens of percent.
UNREST: Final = 1.6


@dataclass(frozen=True, slots=True)
class Look:
    """What the echo did at one moment: jobs per second, and seconds for one."""

    rate: float
    p50_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of one contender: all samples, the echo before and after, and what went wrong."""

    row: str
    contender: str
    samples: dict[str, list[float]]
    looks: tuple[Look, ...] = ()
    took_s: float = 0.0
    trouble: str = ""

    def median(self, series: str) -> float | None:
        values = self.samples.get(series)
        return statistics.median(values) if values else None

    @property
    def echo_rate(self) -> float | None:
        """R: the better of what the echo did before and after."""
        return max((one.rate for one in self.looks), default=None)

    @property
    def echo_p50_s(self) -> float | None:
        """L: likewise."""
        return min((one.p50_s for one in self.looks), default=None)


@dataclass(slots=True)
class Book:
    """All that was measured in one run; `missing` says why something was not."""

    measured: list[Measured] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def find(self, row: str, contender: str = OURS) -> Measured | None:
        found = (one for one in self.measured if (one.row, one.contender) == (row, contender))
        return next(found, None)

    def median(self, row: str, contender: str, series: str) -> float | None:
        found = self.find(row, contender)
        return found.median(series) if found else None

    def limit(self) -> tuple[float | None, float | None]:
        """R and L as they were through the whole run; each ratio has its own."""
        looks = [look for one in self.measured for look in one.looks]
        if not looks:
            return None, None
        rate = statistics.median(one.rate for one in looks)
        return rate, statistics.median(one.p50_s for one in looks)

    def unrest(self) -> str:
        """A warning, if the echo itself was not the same through the run; else nothing."""
        rates = [look.rate for one in self.measured for look in one.looks]
        if not rates or max(rates) < UNREST * min(rates):
            return ""
        return (
            f"The echo itself did between {min(rates):,.0f} and {max(rates):,.0f} jobs/s: this "
            f"machine does something else, and ratios are no better than that"
        )

    def troubles(self) -> list[str]:
        """What went wrong, a line each."""
        return [
            f"{one.row}: {one.contender}: {one.trouble}" for one in self.measured if one.trouble
        ]

    def contenders(self) -> list[str]:
        return in_order(one.contender for one in self.measured)


def in_order(names: Iterable[str]) -> list[str]:
    """Each of them once, as they come."""
    return list(dict.fromkeys(names))


def ratio(value: float | None, base: float | None) -> float | None:
    """How many times the base; None where either is not known."""
    return None if value is None or not base else value / base


def grouped(samples: Sequence[tuple[str, float]]) -> dict[str, list[float]]:
    """The samples of each series, in the order in which they were taken."""
    found: dict[str, list[float]] = {}
    for series, value in samples:
        found.setdefault(series, []).append(value)
    return found
