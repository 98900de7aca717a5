"""How users tell the broker about a job: by which type, and by which arguments."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from grn_zmq.records import Scalar

from .jobs import SimJob, Stream

FRACTIONS: Final = (1 / 8, 1 / 4, 1 / 2, 1.0)
# A careful user declares this much more than the largest job of the type was seen to take.
DECLARED_MARGIN: Final = 1.25
# Jobs that differ by less are the same to the oracle: one class each would only be slow.
SIZE_STEP: Final = 1.02
LENGTH_STEP: Final = 1.5

Described = tuple[str, Mapping[str, Scalar]]
Describe = Callable[[SimJob], Described]


def by_arguments(_: Stream) -> Describe:
    """Name the arguments that matter."""
    return lambda job: (job.job_type, job.by)


def by_type(_: Stream) -> Describe:
    """Name nothing but the type."""
    return lambda job: (job.job_type, {})


def all_alike(_: Stream) -> Describe:
    """Tell nothing: whatever it is, it gets a device."""
    return lambda job: ("any", {})


def by_fraction(stream: Stream) -> Describe:
    """Know the largest job of each type, and declare the next fraction above it."""
    largest: dict[str, int] = {}
    for job in stream.jobs:
        largest[job.job_type] = max(job.peak_bytes, largest.get(job.job_type, 0))

    def describe(job: SimJob) -> Described:
        wanted = largest[job.job_type] * DECLARED_MARGIN / stream.device_bytes
        return str(next((one for one in FRACTIONS if wanted <= one), 1.0)), {}

    return describe


def by_true_size(_: Stream) -> Describe:
    """Know what it will really take, in steps of 2 % of its size and half of its length."""

    def describe(job: SimJob) -> Described:
        size = math.ceil(math.log(job.peak_bytes, SIZE_STEP))
        length = round(math.log(max(job.solo_s, 1.0), LENGTH_STEP))
        return f"{size} {length}", {}

    return describe


@cache
def true_size_bytes(described: str) -> int:
    return math.ceil(SIZE_STEP ** int(described.split()[0]))


@cache
def true_length_s(described: str) -> float:
    return LENGTH_STEP ** int(described.split()[1])
