"""What users would pick instead: which of it is installed, and what it is measured at."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from benchmarks.peers.plain import Peer

# All that any contender can do.
CALLS: Final = ("noop", "latency", "first")
BULK: Final = ("payload", "large")


@dataclass(frozen=True, slots=True)
class Known:
    """A peer: what it needs to be there, and the rows it takes part in."""

    module: str
    packages: Sequence[str] = ()
    programs: Sequence[str] = ()
    rows: Sequence[str] = CALLS

    def lacks(self) -> list[str]:
        """What of its needs is not installed."""
        packages = [name for name in self.packages if find_spec(name) is None]
        return packages + [name for name in self.programs if shutil.which(name) is None]


PEERS: Final = {
    "ray": Known("on_ray", ["ray"], rows=(*CALLS, *BULK)),
    "loky": Known("on_loky", ["loky"], rows=(*CALLS, *BULK)),
    "process-pool": Known("on_process_pool", rows=(*CALLS, *BULK)),
    "dask": Known("on_dask", ["distributed"]),
    "celery": Known("on_celery", ["celery", "redis"], ["redis-server"]),
    "ipyparallel": Known("on_ipyparallel", ["ipyparallel"]),
    "parsl": Known("on_parsl", ["parsl"]),
    "tsp": Known("on_tsp", programs=["tsp"], rows=("commands",)),
}
# What the versions of a run are told of.
PACKAGES: Final = (
    "ray", "loky", "distributed", "celery", "redis", "ipyparallel", "parsl",
)  # fmt: skip


def make(name: str) -> Peer:
    """A peer that has not started yet. What it needs is imported now."""
    peer: Peer = import_module(f"benchmarks.peers.{PEERS[name].module}").make()
    return peer
