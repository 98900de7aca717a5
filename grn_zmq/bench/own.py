"""Measurements of ours alone. Each starts and stops what it needs."""

from collections.abc import Callable, Iterator
from typing import Final

from .contender import Sample
from .deep import deep
from .idle import idle
from .rates import alone, spawn
from .sizes import Size
from .starts import commands, first

OwnWork = Callable[[Size], Iterator[Sample]]

OWN: Final[dict[str, OwnWork]] = {
    "alone": alone,
    "spawn": spawn,
    "deep": deep,
    "first": first,
    "commands": commands,
    "idle": idle,
}
