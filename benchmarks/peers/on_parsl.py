"""parsl, its high throughput executor with one local block."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SingleNodeLauncher
from parsl.providers import LocalProvider

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES


class Parsl(Peer):
    def start(self, workers: int) -> None:
        logging.getLogger("parsl").setLevel(logging.ERROR)
        # It runs scripts that were installed beside this interpreter.
        beside = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", "")])
        block = LocalProvider(
            init_blocks=1, min_blocks=1, max_blocks=1, launcher=SingleNodeLauncher(debug=False)
        )
        self._executor = HighThroughputExecutor(
            label="bench",
            address="127.0.0.1",
            loopback_address="127.0.0.1",
            max_workers_per_node=workers,
            cores_per_worker=0.001,
            encrypted=False,
            provider=block,
        )
        config = Config(
            executors=[self._executor],
            run_dir=tempfile.mkdtemp(prefix="parsl"),
            usage_tracking=0,
            initialize_logging=False,
            strategy="none",
        )
        parsl.load(config)

    def submit(self, name: str, *args: Any) -> Any:
        return self._executor.submit(BODIES[name], {}, *args)

    def stop(self) -> None:
        parsl.dfk().cleanup()
        parsl.clear()


def make() -> Peer:
    return Parsl()
