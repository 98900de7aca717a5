"""A straight line (or plane) through measured points, by weighted least squares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TINY: Final = 1e-9


Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A measured value at some numbers; `weight` is how many runs it stands for."""

    x: tuple[float, ...]
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Line:
    """The fit, and the range of each number within which it may be believed."""

    slopes: tuple[float, ...]
    centre: tuple[float, ...]
    mean: float
    residual: float
    least: tuple[float, ...]
    most: tuple[float, ...]

    def at(self, x: tuple[float, ...]) -> float:
        steps = zip(self.slopes, x, self.centre, strict=True)
        return self.mean + sum(slope * (one - centre) for slope, one, centre in steps)

    def inside(self, x: tuple[float, ...]) -> bool:
        return all(a <= b <= c for a, b, c in zip(self.least, x, self.most, strict=True))

    def beyond(self, x: tuple[float, ...]) -> float:
        """How many times the seen range this lies beyond its end, at the worst number."""
        spans = zip(self.least, x, self.most, strict=True)
        return max(max(b - c, a - b, 0.0) / max(c - a, _TINY) for a, b, c in spans)


def fit(points: Sequence[Point]) -> Line | None:
    """Fit a line; None if the points do not determine one."""
    size = len(points[0].x)
    if len({point.x for point in points}) <= size:
        return None
    total = sum(point.weight for point in points)
    centre = tuple(sum(p.weight * p.x[i] for p in points) / total for i in range(size))
    mean = sum(point.weight * point.value for point in points) / total
    # In units of each number's own spread, so that 1e-4 and 1e6 may stand side by side.
    spread = [
        math.sqrt(sum(p.weight * (p.x[i] - centre[i]) ** 2 for p in points) / total)
        for i in range(size)
    ]
    varying = [i for i in range(size) if spread[i] > _TINY * max(1.0, abs(centre[i]))]
    rows = [[(p.x[i] - centre[i]) / spread[i] for i in varying] for p in points]
    matrix = [
        [sum(p.weight * z[a] * z[b] for p, z in zip(points, rows, strict=True)) / total
         for b in range(len(varying))]
        for a in range(len(varying))
    ]  # fmt: skip
    aim = [
        sum(p.weight * z[a] * (p.value - mean) for p, z in zip(points, rows, strict=True))
        / total
        for a in range(len(varying))
    ]
    solved = _solve(matrix, aim)
    if solved is None or not varying:
        return None
    slopes = [0.0] * size
    for i, slope in zip(varying, solved, strict=True):
        slopes[i] = slope / spread[i]
    line = Line(tuple(slopes), centre, mean, 0.0, *_range(points, size))
    squares = sum(p.weight * (line.at(p.x) - p.value) ** 2 for p in points) / total
    return Line(line.slopes, centre, mean, math.sqrt(squares), line.least, line.most)


def _range(points: Sequence[Point], size: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    columns = [[point.x[i] for point in points] for i in range(size)]
    return tuple(map(min, columns)), tuple(map(max, columns))


def _solve(matrix: list[list[float]], aim: list[float]) -> list[float] | None:
    """Gaussian elimination with pivoting; at most three unknowns. None if singular."""
    size = len(aim)
    rows = [[*row, value] for row, value in zip(matrix, aim, strict=True)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        if abs(rows[pivot][at]) < _TINY:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [b - factor * a for a, b in zip(rows[at], rows[below], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(rows[at][i] * found[i] for i in range(at + 1, size))
        found[at] = (rows[at][size] - rest) / rows[at][at]
    return found
