"""What takes longer than `grn bench` may: more workers, and a framework in new processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import grn_zmq as grn
from grn_zmq.bench.contender import Sample, require
from grn_zmq.bench.ours import Ours, running
from grn_zmq.bench.sizes import WORKERS, Size
from grn_zmq.bench.works import noop

COLD: Final = "import torch; assert float(torch.ones(8).sum()) == 8"
COLD_S: Final = 120.0


def workers(size: Size) -> Iterator[Sample]:
    """The same bursts with one worker, two, four and so on."""
    for count in size.worker_counts:
        ours = Ours()
        ours.start(count)
        try:
            for series, value in noop(ours, size):
                yield f"{series}_{count}", value
        finally:
            ours.stop()


def use_torch() -> float:
    torch = import_module("torch")
    return float(torch.ones(8).sum())


def warm(size: Size) -> Iterator[Sample]:
    """A call that uses torch, in a new process each time, against a cold interpreter."""
    job = grn.job(reuse=False, memory="256MiB")(use_torch)
    with running(WORKERS):
        begun = time.perf_counter()
        require(job() == 8, "8 was not what came back")
        yield "first_s", time.perf_counter() - begun
        for _ in range(size.repeats):
            begun = time.perf_counter()
            value = job()
            yield "next_s", time.perf_counter() - begun
            require(value == 8, "8 was not what came back")
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", COLD], check=True, timeout=COLD_S)
            yield "cold_s", time.perf_counter() - begun
