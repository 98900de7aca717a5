"""`concurrent.futures.ProcessPoolExecutor`, as it comes with Python."""

from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES


class ProcessPool(Peer):
    def start(self, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers)

    def submit(self, name: str, *args: Any) -> "Future[Any]":
        return self._pool.submit(BODIES[name], *args)

    def stop(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def make() -> Peer:
    return ProcessPool()
