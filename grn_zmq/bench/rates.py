"""One job per worker at a time, and jobs that are safe once they are handed over."""

import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import grn_zmq as grn

from .contender import Sample, require
from .ours import NO_PREFETCH, Ours, running
from .sizes import WORKERS, Size
from .works import WARM

# What a commit of a small job writes, about.
PAGE: Final = b"x" * 4096
FLUSHES: Final = 20


def alone(size: Size) -> Iterator[Sample]:
    """As many jobs in flight as there are workers: the next goes when one came back."""
    with running(WORKERS, **NO_PREFETCH) as ours:
        for _ in range(WARM):
            ours.call("noop")
        count = max(WARM, size.burst // 2)
        for _ in range(size.repeats):
            begun = time.perf_counter()
            _one_per_worker(ours, count)
            yield "rate", count / (time.perf_counter() - begun)


def _one_per_worker(ours: Ours, count: int) -> None:
    in_flight: deque[Any] = deque()
    for number in range(count + WORKERS):
        if number >= WORKERS:
            require(ours.gather([in_flight.popleft()]) == [1], "1 was not what came back")
        if number < count:
            in_flight.append(ours.submit("noop"))


def spawn(size: Size) -> Iterator[Sample]:
    """Fire and forget, one by one and many at once, beside what the disk takes to flush."""
    with running(WORKERS) as ours:
        ours.call("noop")
        noop = ours.functions["noop"]
        echo = ours.functions["echo"]
        for _ in range(size.repeats):
            flush_s = flushing_s()
            begun = time.perf_counter()
            ids = [noop.spawn() for _ in range(size.spawns)]
            seconds = time.perf_counter() - begun
            yield "spawns", size.spawns / seconds
            yield "flush_s", flush_s
            yield "per_flush", size.spawns / seconds * min(flush_s, flushing_s())
            _check(ids, [1] * size.spawns)
        for _ in range(size.repeats):
            begun = time.perf_counter()
            ids = echo.spawn_map(range(size.spawn_map))
            yield "spawn_map", size.spawn_map / (time.perf_counter() - begun)
            _check(ids, list(range(size.spawn_map)))


def _check(ids: list[str], values: list[int]) -> None:
    found = [grn.attach(job_id) for job_id in ids]
    require([one.result() for one in found] == values, "spawned jobs gave something else")


def flushing_s() -> float:
    """What the disk of the state directory takes to have a small write safe, at its median."""
    times: list[float] = []
    with tempfile.TemporaryFile(dir=os.environ["XDG_STATE_HOME"], buffering=0) as file:
        for _ in range(FLUSHES):
            file.write(PAGE)
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times)
