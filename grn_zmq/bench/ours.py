"""Ourselves as a contender: the public API, all features on, the journal too."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grn_zmq as grn

from ..client import this_client
from . import jobs

# Enough for the largest payload there and back; it is promised, not taken.
DEVICE: Final = "2GiB"
# A job that is only waited for need not be measured alone before the next of its type.
SMALL: Final = "16MiB"
# Options under which a worker has one job at a time and none in advance, as for GPUs: what has
# a limit of its own never follows another.
NO_PREFETCH: Final[dict[str, Any]] = {"time_limit": 3600}


class Ours:
    """A broker with host devices that take one job at a time, as workers of others do."""

    def __init__(self, *, max_jobs: int = 1, **options: Any) -> None:
        self._max_jobs = max_jobs
        self.functions = {
            name: grn.job(memory=SMALL, **options)(body) for name, body in jobs.BODIES.items()
        }

    def start(self, workers: int) -> None:
        self.server = grn.start(f"host:{workers}x{DEVICE}", max_jobs=self._max_jobs)

    def submit(self, name: str, *args: Any) -> "grn.Future[Any]":
        return self.functions[name].submit(*args)

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return [one.result() for one in handles]

    def call(self, name: str, *args: Any) -> Any:
        return self.functions[name](*args)

    def stop(self) -> None:
        this_client().close()  # what was not waited for is given up
        self.server.stop()


@contextmanager
def running(workers: int, *, max_jobs: int = 1, **options: Any) -> Iterator[Ours]:
    """Ours, started, and stopped in the end."""
    ours = Ours(max_jobs=max_jobs, **options)
    ours.start(workers)
    try:
        yield ours
    finally:
        ours.stop()


def command(*words: str) -> list[str]:
    """A command line of ours: the script as it was installed beside this interpreter."""
    script = Path(sys.executable).parent / "grn"
    if script.exists():
        return [str(script), *words]
    return [shutil.which(sys.executable) or sys.executable, "-m", "grn_zmq.cli.main", *words]
