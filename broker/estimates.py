"""What a job is expected to need: a figure to promise, and how far it may be off."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from .cells import By, Cell
from .line import Line, Point, fit

# Three imagined runs with 6 % of spread stand for what is not known of a young cell.
PRIOR_RUNS: Final = 3
PRIOR_SPREAD: Final = 0.06
# What a model or a bound gives is promised with this on top.
MODEL_MARGIN: Final = 1.08
MODEL_SPREAD: Final = 0.06
# An out-of-memory that did not say what it asked for needed at least this much more.
UNTOLD_STEP: Final = 1.2
OTHER_CLASS_SPREAD: Final = 0.12
PRIOR_BIAS: Final = 0.30
SETTLED_BIAS: Final = 0.15
BOUND_BIAS: Final = 0.10
FAILED_BIAS: Final = 0.30
# Numbers beyond these are taken as names: a line in more directions needs too many runs.
MOST_FEATURES: Final = 3
FAILURES_THAT_TEACH: Final = 2
# Larger than any device is large enough, however much larger the number is.
MOST_RATIO: Final = 1e6


class Kind(StrEnum):
    """Where an estimate comes from, the best first."""

    MEASURED = "measured"
    MODELLED = "modelled"
    EXTRAPOLATED = "extrapolated"
    BOUND = "lower bound"
    STAND_IN = "stand-in"
    SETTLED = "settled"
    PRIOR = "declared"


@dataclass(frozen=True, slots=True)
class Estimate:
    """`lease_bytes` is promised; `noise_bytes` is how runs differ, `bias_bytes` how wrong
    the figure itself may be: equal jobs share the second, so it does not average out.

    `sure_bytes` is what a run is known to have taken: what is larger than a device is refused.
    An estimate `beyond` a device was cut to its size: it is worth a try, but not the first.
    `expected_bytes` is what it was before it was made to fit the device: what is shown.
    """

    lease_bytes: int
    noise_bytes: float
    bias_bytes: float
    kind: Kind
    runs: int = 0
    sure_bytes: int = 0
    beyond: bool = False
    expected_bytes: int = 0


def split(by: By) -> tuple[By, tuple[float, ...]]:
    """Tell names from numbers: jobs of one group lie on one line over their numbers."""
    numbers = [(name, value) for name, value in by if _numeric(value)][:MOST_FEATURES]
    names = tuple(pair for pair in by if pair not in numbers)
    group = names + tuple((name, "#") for name, _ in numbers)
    return group, tuple(float(value) for _, value in numbers)


def _numeric(value: object) -> bool:
    finite = isinstance(value, int | float) and math.isfinite(value)
    return finite and not isinstance(value, bool)


def from_cell(cell: Cell) -> Estimate | None:
    """Estimate from runs of exactly such jobs."""
    if cell.runs == 0:
        return None
    trust = max(1, min(cell.trust, cell.runs))
    squares = cell.squares * trust / cell.runs
    prior = PRIOR_RUNS * (PRIOR_SPREAD * cell.mean_bytes) ** 2
    noise = math.sqrt((prior + squares) / (PRIOR_RUNS + trust - 1))
    found = Estimate(
        cell.max_bytes,
        noise,
        noise / math.sqrt(trust),
        Kind.MEASURED,
        cell.runs,
        cell.max_bytes,
    )
    return above_bound(found, cell)


def from_failures(cell: Cell) -> Estimate | None:
    """Estimate from runs that all failed: at least what they reached."""
    if cell.ooms == 0 and cell.failures < FAILURES_THAT_TEACH:
        return None
    lease = int(cell.bound_bytes * MODEL_MARGIN)
    return Estimate(lease, 0.0, FAILED_BIAS * lease, Kind.BOUND, cell.failures)


def from_stand_in(cell: Cell) -> Estimate | None:
    """Estimate from the cheaper stand-in: a first figure, never an exact one."""
    if not cell.stand_in_bytes:
        return None
    lease = int(cell.stand_in_bytes * MODEL_MARGIN)
    return above_bound(Estimate(lease, 0.0, SETTLED_BIAS * lease, Kind.STAND_IN), cell)


def from_settled(used_bytes: int) -> Estimate:
    """Estimate from a run that has not ended but grows no more."""
    lease = int(used_bytes * MODEL_MARGIN)
    return Estimate(lease, 0.0, SETTLED_BIAS * lease, Kind.SETTLED)


def from_prior(memory_bytes: int) -> Estimate:
    """Estimate from what the user declared."""
    bias = PRIOR_BIAS * memory_bytes
    return Estimate(memory_bytes, 0.0, bias, Kind.PRIOR, sure_bytes=memory_bytes)


def above_bound(estimate: Estimate, cell: Cell) -> Estimate:
    """Raise an estimate that failed runs have proved too low."""
    if cell.bound_bytes <= estimate.lease_bytes:
        return estimate
    lease = int(cell.bound_bytes * MODEL_MARGIN)
    bias = max(estimate.bias_bytes, BOUND_BIAS * lease)
    return replace(estimate, lease_bytes=lease, bias_bytes=bias)


def on_other_class(estimate: Estimate) -> Estimate:
    """What was measured on another model of device: allocators differ from card to card."""
    lease = int(estimate.lease_bytes * MODEL_MARGIN)
    bias = math.hypot(estimate.bias_bytes, OTHER_CLASS_SPREAD * lease)
    return replace(estimate, lease_bytes=lease, bias_bytes=bias, sure_bytes=0)


def from_others(
    numbers: tuple[float, ...], others: Mapping[tuple[float, ...], Cell]
) -> Estimate | None:
    """Estimate from runs with other numbers: a line inside what was seen, caution outside."""
    points = [Point(x, cell.mean_bytes, min(cell.runs, 10)) for x, cell in others.items()]
    points = [point for point in points if point.weight > 0]
    if not numbers or not points:
        return None
    line = fit(points)
    if line is None or not math.isfinite(line.at(numbers)):
        return _from_nearest(numbers, points)
    below = [
        one.value for one in points if all(a <= b for a, b in zip(one.x, numbers, strict=True))
    ]
    above = [
        one.value for one in points if all(a >= b for a, b in zip(one.x, numbers, strict=True))
    ]
    if line.inside(numbers) and below and above:
        return _inside(line, numbers, below, above)
    return _outside(line, numbers, points)


def _inside(
    line: Line, numbers: tuple[float, ...], below: Sequence[float], above: Sequence[float]
) -> Estimate:
    """Where memory grows with the numbers, neighbours that were seen bound the line."""
    value = max(line.at(numbers), min(*below, *above))
    least, most = max(below), min(above)
    if least <= most:
        value = min(max(value, least), most)
    lease = int(value * MODEL_MARGIN)
    noise = math.hypot(MODEL_SPREAD * lease, line.residual)
    return Estimate(lease, noise, noise / 2, Kind.MODELLED)


def _outside(line: Line, numbers: tuple[float, ...], points: Sequence[Point]) -> Estimate:
    smallest = min(point.value for point in points)
    largest = max(point.value for point in points)
    value = line.at(numbers)
    if value < smallest:
        lease = int(max(value * MODEL_MARGIN, smallest / 2))
        return Estimate(lease, 0.0, 0.10 * smallest, Kind.EXTRAPOLATED)
    lease = int(max(value, largest) * MODEL_MARGIN)
    bias = 0.12 * lease * max(1.0, math.log2(1.0 + line.beyond(numbers)))
    return Estimate(lease, line.residual, bias, Kind.EXTRAPOLATED)


def _from_nearest(numbers: tuple[float, ...], points: Sequence[Point]) -> Estimate:
    """Too few runs for a line: never below what smaller numbers took, or in proportion."""
    smaller = [
        one for one in points if all(a <= b for a, b in zip(one.x, numbers, strict=True))
    ]
    if not smaller:
        largest = max(point.value for point in points)
        return Estimate(int(largest), 0.05 * largest, 0.05 * largest, Kind.EXTRAPOLATED)
    nearest = max(smaller, key=lambda point: point.value)
    ratios = [b / a for a, b in zip(nearest.x, numbers, strict=True) if a > 0 and b > a]
    ratio = min(math.prod(ratios), MOST_RATIO)
    lease = int(nearest.value * max(MODEL_MARGIN, 0.9 * ratio))
    return Estimate(lease, 0.0, 0.15 * lease, Kind.EXTRAPOLATED)
