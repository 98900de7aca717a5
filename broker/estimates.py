"""What a job is expected to need: a figure to promise, and how far it may be off."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Final

from .cells import By, Cell

# One imagined run with 6 % of spread stands for what is not known of a young cell.
PRIOR_RUNS: Final = 1
PRIOR_SPREAD: Final = 0.06
# What a model or a bound gives is promised with this on top.
MODEL_MARGIN: Final = 1.08
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
# Larger than any device is large enough, however much larger it is.
MOST_BYTES: Final = 1 << 56


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
    `bare_bytes` is the need without any margin: enough where nobody else is.
    """

    lease_bytes: int
    noise_bytes: float
    bias_bytes: float
    kind: Kind
    runs: int = 0
    sure_bytes: int = 0
    beyond: bool = False
    expected_bytes: int = 0
    bare_bytes: int = 0


def bounded(estimate: Estimate) -> Estimate:
    """Keep what far-fetched arguments lead to within what can be counted and sent."""
    lease = min(max(estimate.lease_bytes, 0), MOST_BYTES)
    return replace(
        estimate,
        lease_bytes=lease,
        noise_bytes=min(estimate.noise_bytes, MOST_BYTES),
        bias_bytes=min(estimate.bias_bytes, MOST_BYTES),
        bare_bytes=min(max(estimate.bare_bytes, 0), lease),
    )


@cache
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
    squares = cell.squares
    prior = PRIOR_RUNS * (PRIOR_SPREAD * cell.mean_bytes) ** 2
    noise = math.sqrt((prior + squares) / (PRIOR_RUNS + trust - 1))
    found = Estimate(
        cell.max_bytes,
        noise,
        noise / math.sqrt(trust),
        Kind.MEASURED,
        cell.runs,
        cell.max_bytes,
        bare_bytes=cell.max_bytes,
    )
    return above_bound(found, cell)


def from_failures(cell: Cell) -> Estimate | None:
    """Estimate from runs that all failed: at least what they reached."""
    teach = cell.ooms > 0 or cell.failures >= FAILURES_THAT_TEACH
    if not teach or not cell.bound_bytes:  # who failed before it took anything shows nothing
        return None
    lease, bare = int(cell.bound_bytes * MODEL_MARGIN), cell.bound_bytes
    return Estimate(lease, 0.0, FAILED_BIAS * lease, Kind.BOUND, cell.failures, bare_bytes=bare)


def from_stand_in(cell: Cell) -> Estimate | None:
    """Estimate from the cheaper stand-in: a first figure, never an exact one."""
    if not cell.stand_in_bytes:
        return None
    lease = int(cell.stand_in_bytes * MODEL_MARGIN)
    bare = cell.stand_in_bytes
    found = Estimate(lease, 0.0, SETTLED_BIAS * lease, Kind.STAND_IN, bare_bytes=bare)
    return above_bound(found, cell)


def from_settled(used_bytes: int) -> Estimate:
    """Estimate from a run that has not ended but grows no more."""
    lease = int(used_bytes * MODEL_MARGIN)
    return Estimate(lease, 0.0, SETTLED_BIAS * lease, Kind.SETTLED, bare_bytes=used_bytes)


def from_prior(memory_bytes: int) -> Estimate:
    """Estimate from what the user declared."""
    bias = PRIOR_BIAS * memory_bytes
    return Estimate(
        memory_bytes,
        0.0,
        bias,
        Kind.PRIOR,
        sure_bytes=memory_bytes,
        bare_bytes=memory_bytes,
    )


def above_bound(estimate: Estimate, cell: Cell) -> Estimate:
    """Raise an estimate that failed runs have proved too low."""
    if cell.bound_bytes <= estimate.lease_bytes:
        return estimate
    lease = int(cell.bound_bytes * MODEL_MARGIN)
    bias = max(estimate.bias_bytes, BOUND_BIAS * lease)
    bare = cell.bound_bytes
    return replace(estimate, lease_bytes=lease, bias_bytes=bias, bare_bytes=bare)


def on_other_class(estimate: Estimate) -> Estimate:
    """What was measured on another model of device: allocators differ from card to card."""
    lease = int(estimate.lease_bytes * MODEL_MARGIN)
    bias = math.hypot(estimate.bias_bytes, OTHER_CLASS_SPREAD * lease)
    return replace(estimate, lease_bytes=lease, bias_bytes=bias, sure_bytes=0)
