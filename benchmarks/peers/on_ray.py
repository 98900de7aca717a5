"""ray, on this machine alone, a processor for each task."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import ray

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES
from grn_zmq.units import GIB


class Ray(Peer):
    def start(self, workers: int) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=2 * GIB,
            _temp_dir=tempfile.mkdtemp(prefix="r"),
        )
        self._tasks = {name: ray.remote(num_cpus=1)(body) for name, body in BODIES.items()}

    def submit(self, name: str, *args: Any) -> Any:
        return self._tasks[name].remote(*args)

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        values: list[Any] = ray.get(list(handles))
        return values

    def stop(self) -> None:
        ray.shutdown()


def make() -> Peer:
    return Ray()
