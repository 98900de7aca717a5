"""Synthetic streams of jobs. Everything follows from the seeds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from .jobs import GIB, SimJob, Step, Stream
from .physics import Law

# What every process that touches a GPU pays before its first tensor.
CONTEXT_BYTES: Final = 400 << 20
# A job has most of its memory once it has loaded its data and taken its first steps.
WARM_UP_S: Final = 10.0
# Every job fits an empty device of 24 GiB.
MOST_BYTES: Final = 23 * GIB
# Arrivals are shaken by so much of their span: packing is chaotic, one order proves nothing.
JITTER: Final = 0.01


@dataclass(frozen=True, slots=True)
class Seeds:
    """`types` decides what kinds of jobs exist, `runs` in which order and with what noise."""

    types: int
    runs: int

    def for_types(self, workload: str) -> Random:
        return Random(f"{workload} types {self.types}")

    def for_runs(self, workload: str) -> Random:
        return Random(f"{workload} runs {self.types} {self.runs}")


@dataclass(frozen=True, slots=True)
class Kind:
    """What the runs of one type (with the same arguments) have in common."""

    job_type: str
    by: Mapping[str, int]
    peak_bytes: float
    solo_s: float
    utilisation: float
    bandwidth: float
    late: float = 0.0  # the share of its life after which it grows to its peak; 0: at once


def sweep(seeds: Seeds, count: int, devices: int, law: Law) -> Stream:
    """W1: 12 types, each with 5 batch sizes, all of them equally often."""
    kinds = [kind for n in range(12) for kind in _sweep_kinds(n, seeds.for_types("sweep"))]
    rng = seeds.for_runs("sweep")
    chosen = [kinds[i % len(kinds)] for i in range(count)]
    rng.shuffle(chosen)
    jobs = [a_run(kind, i, i / count, rng) for i, kind in enumerate(chosen)]
    return Stream("sweep", in_order(jobs, rng), devices, 24 * GIB, law)


def _sweep_kinds(number: int, rng: Random) -> list[Kind]:
    rng = Random(f"{rng.random()} {number}")
    jumps, late = number % 5 == 0, number % 4 == 1  # 20 % and 25 % of the types
    fixed = rng.uniform(1.0, 2.5) * GIB
    largest = rng.uniform(8.0, 21.0) * GIB
    length_s = rng.lognormvariate(math.log(400), 0.6)
    busy = rng.uniform(0.3, 0.75)
    hungry = rng.uniform(0.3, 0.8)
    kinds = []
    for power in range(5):
        size = 16 << power
        share = size / 256
        peak = fixed + (largest - fixed) * share
        if jumps and power == 4:
            peak *= 1.4
        utilisation = busy * (0.55 + 0.45 * power / 4)
        kinds.append(
            Kind(
                f"sweep.py::model_{number}",
                {"batch_size": size},
                peak,
                length_s * (1.3 - 0.15 * power),
                utilisation,
                utilisation * hungry,
                rng.uniform(0.4, 0.7) if late else 0.0,
            )
        )
    return kinds


def adversary(seeds: Seeds, count: int, devices: int, law: Law) -> Stream:
    """W7: a code change that doubles the peak, two modes, a leak, among honest types."""
    rng = seeds.for_runs("adversary")
    kinds = [kind for n in range(4) for kind in _sweep_kinds(n, seeds.for_types("adversary"))]
    names = ["doubles", "two-modes", "leaks", "honest", "honest"]
    jobs, runs = [], dict.fromkeys(names, 0)
    for i in range(count):
        name = names[i % len(names)]
        runs[name] += 1
        at = i / count
        jobs.append(
            a_run(kinds[rng.randrange(len(kinds))], i, at, rng)
            if name == "honest"
            else _TRICKS[name](i, at, runs[name], rng)
        )
    return Stream("adversary", in_order(jobs, rng), devices, 24 * GIB, law)


def _doubles(number: int, at: float, run: int, rng: Random) -> SimJob:
    peak = (4.0 if run < 50 else 8.0) * GIB
    version = "before" if run < 50 else "after"
    kind = Kind("tricky.py::doubles", {}, peak, 400.0, 0.4, 0.2)
    return a_run(kind, number, at, rng, version=version)


def _two_modes(number: int, at: float, run: int, rng: Random) -> SimJob:
    peak = rng.choice([3.0, 3.0, 3.0, 9.0]) * GIB
    return a_run(Kind("tricky.py::two_modes", {}, peak, 300.0, 0.4, 0.2), number, at, rng)


def _leaks(number: int, at: float, run: int, rng: Random) -> SimJob:
    """Memory grows all along, and the longer the run the more."""
    length_s = rng.uniform(200, 900)
    peak = (2.0 + 6.0 * length_s / 900) * GIB
    steps = tuple(Step(i / 20, int(peak * (0.3 + 0.7 * i / 19))) for i in range(20))
    return SimJob(number, "tricky.py::leaks", {}, at, length_s, steps, 0.35, 0.2)


_TRICKS: Final[Mapping[str, Callable[[int, float, int, Random], SimJob]]] = {
    "doubles": _doubles,
    "two-modes": _two_modes,
    "leaks": _leaks,
}


def a_run(
    kind: Kind,
    number: int,
    arrival_s: float,
    rng: Random,
    *,
    most_bytes: float = MOST_BYTES,
    spread: float = 0.02,
    solo_s: float | None = None,
    version: str = "",
) -> SimJob:
    """One run of a kind: its peak and its length vary a little from run to run."""
    peak = int(min(kind.peak_bytes * rng.lognormvariate(0, spread), most_bytes))
    if solo_s is None:
        solo_s = kind.solo_s * rng.lognormvariate(0, 0.1)
    early = peak if not kind.late else int(0.65 * peak)
    warm = min(0.1, WARM_UP_S / solo_s)
    steps = [Step(0.0, CONTEXT_BYTES), Step(warm / 2, int(0.8 * early)), Step(warm, early)]
    if kind.late:
        steps.append(Step(kind.late, peak))
    return SimJob(
        number=number,
        job_type=kind.job_type,
        by=kind.by,
        arrival_s=arrival_s,
        solo_s=solo_s,
        steps=tuple(steps),
        utilisation=kind.utilisation,
        bandwidth=kind.bandwidth,
        version=version,
    )


def in_order(jobs: list[SimJob], rng: Random) -> tuple[SimJob, ...]:
    """Shake the arrivals, and sort by them."""
    span = max(job.arrival_s for job in jobs) - min(job.arrival_s for job in jobs)
    shaken = [
        replace(job, arrival_s=job.arrival_s + JITTER * span * rng.random()) for job in jobs
    ]
    return tuple(sorted(shaken, key=lambda job: job.arrival_s))
