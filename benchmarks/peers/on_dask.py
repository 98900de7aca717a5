"""dask.distributed, a local cluster of processes with one thread each."""

import logging
from collections.abc import Sequence
from typing import Any

from distributed import Client, LocalCluster

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES


class Dask(Peer):
    def start(self, workers: int) -> None:
        logging.getLogger("distributed").setLevel(logging.ERROR)
        self._cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            memory_limit=0,
        )
        self._client = Client(self._cluster)

    def submit(self, name: str, *args: Any) -> Any:
        # Else the second call of a function without arguments would be the first's value.
        return self._client.submit(BODIES[name], *args, pure=False)

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        values: list[Any] = self._client.gather(list(handles))
        return values

    def stop(self) -> None:
        self._client.close()
        self._cluster.close()


def make() -> Peer:
    return Dask()
