"""Long queues: what a waiting job costs the broker, and whether it slows the others down."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .contender import Sample, require
from .ours import Ours, running
from .scenes import broker_pid, resident_bytes, until_queued, until_running
from .sizes import WORKERS, Size


def deep(size: Size) -> Iterator[Sample]:
    """Fill the queue behind held workers, let them go, and time how it drains."""
    for _ in range(size.fills):
        with running(WORKERS) as ours, tempfile.TemporaryDirectory() as directory:
            for turn in range(size.repeats):
                gate = Path(directory, f"gate{turn}")
                yield "drain_few", _drain(ours, gate, size.queued_few, size.queued_few)[0]
            rate, per_job = _drain(ours, Path(directory, "gate"), size.queued, size.drained)
            yield "drain_many", rate
            yield "bytes_per_job", per_job


def _drain(ours: Ours, gate: Path, queued: int, drained: int) -> tuple[float, float]:
    """Queue so many, then wait for the first of them: jobs per second, bytes for each.

    All are of one type, so that the processes that were held go on at once with the rest.
    """
    held = [ours.submit("hold", str(gate)) for _ in range(WORKERS)]
    until_running(WORKERS)
    broker = broker_pid()
    before = resident_bytes(broker)
    handles = [ours.submit("hold", str(gate)) for _ in range(queued)]
    until_queued(queued)
    per_job = (resident_bytes(broker) - before) / queued
    begun = time.perf_counter()
    gate.touch()
    pids = ours.gather(held)
    values = ours.gather(handles[:drained])
    seconds = time.perf_counter() - begun
    require(len(set(pids)) == WORKERS, "the workers were not all held")
    require(len(values) == drained and min(values) > 0, "not every job has run")
    return drained / seconds, per_job
