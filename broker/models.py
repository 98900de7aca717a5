"""What jobs with other numbers tell: a line inside what was seen, caution outside."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import ge, le
from typing import Final

from .cells import Cell
from .estimates import MODEL_MARGIN, Estimate, Kind
from .line import Line, Numbers, Point, fit

MODEL_SPREAD: Final = 0.06
# Larger than any device is large enough, however much larger the number is.
MOST_RATIO: Final = 1e6
# A cell counts as so many runs at most: many of one size must not bend the line.
MOST_WEIGHT: Final = 10


@dataclass(slots=True)
class Model:
    """All measured points of a kind of job, prepared to be asked about many numbers."""

    points: list[Point]
    line: Line | None = None
    smallest: float = 0.0
    largest: float = 0.0
    _sorted: list[float] = field(default_factory=list)
    _most_below: list[float] = field(default_factory=list)
    _least_above: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, cells: Mapping[Numbers, Cell]) -> "Model | None":
        """Fit what was measured; None if nothing was, or there are no numbers."""
        points = [
            Point(x, cell.mean_bytes, min(cell.runs, MOST_WEIGHT))
            for x, cell in cells.items()
            if x and cell.runs
        ]
        if not points:
            return None
        values = [point.value for point in points]
        model = cls(points, fit(points), min(values), max(values))
        if len(points[0].x) == 1:
            ordered = sorted(points, key=lambda point: point.x)
            model._sorted = [point.x[0] for point in ordered]
            ranked = [point.value for point in ordered]
            model._most_below = list(accumulate(ranked, max))
            model._least_above = list(accumulate(reversed(ranked), min))[::-1]
        return model

    def estimate(self, numbers: Numbers) -> Estimate:
        """Estimate the need for these numbers."""
        below, above = self._neighbours(numbers)
        line = self.line
        if line is None or not math.isfinite(line.at(numbers)):
            return self._from_nearest(numbers)
        if line.inside(numbers) and below is not None and above is not None:
            return _inside(line, numbers, below, above, self.smallest)
        return self._outside(line, numbers)

    def _neighbours(self, numbers: Numbers) -> tuple[float | None, float | None]:
        """The most that no larger numbers took, and the least that no smaller ones did."""
        if self._sorted:
            at = bisect_right(self._sorted, numbers[0])
            after = bisect_left(self._sorted, numbers[0])
            below = self._most_below[at - 1] if at else None
            above = self._least_above[after] if after < len(self._sorted) else None
            return below, above
        smaller = [one.value for one in self.points if all(map(le, one.x, numbers))]
        larger = [one.value for one in self.points if all(map(ge, one.x, numbers))]
        return max(smaller, default=None), min(larger, default=None)

    def _outside(self, line: Line, numbers: Numbers) -> Estimate:
        value = line.at(numbers)
        if value < self.smallest:
            lease = int(max(value * MODEL_MARGIN, self.smallest / 2))
            bias = 0.10 * self.smallest
            return Estimate(lease, 0.0, bias, Kind.EXTRAPOLATED, bare_bytes=lease)
        bare = max(value, self.largest)
        lease = int(bare * MODEL_MARGIN)
        bias = 0.12 * lease * max(1.0, math.log2(1.0 + line.beyond(numbers)))
        return Estimate(lease, line.residual, bias, Kind.EXTRAPOLATED, bare_bytes=int(bare))

    def _from_nearest(self, numbers: Numbers) -> Estimate:
        """Too few runs for a line: never below what smaller numbers took, or in proportion."""
        smaller = [one for one in self.points if all(map(le, one.x, numbers))]
        if not smaller:
            bare, spread = int(self.largest), 0.05 * self.largest
            return Estimate(bare, spread, spread, Kind.EXTRAPOLATED, bare_bytes=bare)
        nearest = max(smaller, key=lambda point: point.value)
        ratios = [b / a for a, b in zip(nearest.x, numbers, strict=True) if a > 0 and b > a]
        ratio = min(math.prod(ratios), MOST_RATIO)
        lease = int(nearest.value * max(MODEL_MARGIN, 0.9 * ratio))
        return Estimate(lease, 0.0, 0.15 * lease, Kind.EXTRAPOLATED, bare_bytes=lease)


def _inside(
    line: Line, numbers: Numbers, below: float, above: float, smallest: float
) -> Estimate:
    """Where memory grows with the numbers, neighbours that were seen bound the line."""
    value = max(line.at(numbers), smallest)
    if below <= above:
        value = min(max(value, below), above)
    lease = int(value * MODEL_MARGIN)
    noise = math.hypot(MODEL_SPREAD * lease, line.residual)
    return Estimate(lease, noise, noise / 2, Kind.MODELLED, bare_bytes=int(value))
