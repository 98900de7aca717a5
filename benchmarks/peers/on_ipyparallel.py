"""ipyparallel, a load balanced view of local engines."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES


class Ipyparallel(Peer):
    def start(self, workers: int) -> None:
        os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="ipp")
        import ipyparallel  # it looks for its directory when it is imported

        self._cluster = ipyparallel.Cluster(n=workers, log_level=40)
        self._client = self._cluster.start_and_connect_sync(activate=False)
        self._view = self._client.load_balanced_view()

    def submit(self, name: str, *args: Any) -> Any:
        return self._view.apply_async(BODIES[name], *args)

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return [one.get() for one in handles]

    def stop(self) -> None:
        self._client.close()
        self._cluster.stop_cluster_sync()


def make() -> Peer:
    return Ipyparallel()
