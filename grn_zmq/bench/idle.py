"""What broker and workers take of the processor while nothing ends and nothing comes."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .below import below
from .contender import Sample, require
from .ours import running
from .scenes import processor_s, until_running
from .sizes import Size

# What has just started still settles: samples are dense at first.
SETTLE_S: Final = 1.0
PERCENT: Final = 100.0


def idle(size: Size) -> Iterator[Sample]:
    """Percent of one core: first without any job, then with many that only wait."""
    jobs_on_each = -(-size.running // size.idle_workers)
    with running(size.idle_workers, max_jobs=jobs_on_each) as ours:
        daemons = [ours.server.pid, *below(ours.server.pid)]
        time.sleep(SETTLE_S)
        for _ in range(size.repeats):
            yield "idle_percent", _percent(daemons, size.watch_s)
        with tempfile.TemporaryDirectory() as directory:
            gate = Path(directory, "open")
            held = [ours.submit("hold", str(gate)) for _ in range(size.running)]
            until_running(size.running)
            time.sleep(SETTLE_S)
            for _ in range(size.repeats):
                yield "running_percent", _percent(daemons, size.watch_s)
            gate.touch()
            pids = ours.gather(held)
        require(len(set(pids)) == size.running, "the jobs did not run at the same time")


def _percent(pids: list[int], seconds: float) -> float:
    before_s, begun = processor_s(pids), time.perf_counter()
    time.sleep(seconds)
    return PERCENT * (processor_s(pids) - before_s) / (time.perf_counter() - begun)
