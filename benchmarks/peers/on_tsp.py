"""task-spooler: a queue of shell commands, one call for each."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from grn_zmq.bench.contender import Sample, require
from grn_zmq.bench.sizes import WORKERS, Size

CALL_S: Final = 60.0
LOOK_S: Final = 0.02


def commands(size: Size) -> Iterator[Sample]:
    """As many commands as ours get, until its list has none that waits or runs."""
    place = Path(tempfile.mkdtemp(prefix="tsp"))
    os.environ.update(TS_SOCKET=str(place / "s"), TMPDIR=str(place), TS_MAXFINISHED="100000")
    try:
        _tsp("-S", str(WORKERS))
        _tsp("-f", "-n", "true")
        for _ in range(size.repeats):
            begun = time.perf_counter()
            for _ in range(size.commands):
                _tsp("-n", "true")
            while any(word in _tsp() for word in ("queued", "running")):
                time.sleep(LOOK_S)
            yield "rate", size.commands / (time.perf_counter() - begun)
            require(_tsp().count("finished") >= size.commands, "not all have finished")
            _tsp("-C")
    finally:
        _tsp("-K")


def _tsp(*words: str) -> str:
    done = subprocess.run(["tsp", *words], capture_output=True, text=True, timeout=CALL_S)
    return done.stdout
