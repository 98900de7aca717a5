"""loky, the executor behind joblib."""

from typing import Any

from loky import get_reusable_executor

from benchmarks.peers.plain import Peer
from grn_zmq.bench.jobs import BODIES

# Workers are not to leave between two measurements.
STAY_S = 600


class Loky(Peer):
    def start(self, workers: int) -> None:
        self._pool = get_reusable_executor(max_workers=workers, timeout=STAY_S)

    def submit(self, name: str, *args: Any) -> Any:
        return self._pool.submit(BODIES[name], *args)

    def stop(self) -> None:
        self._pool.shutdown(wait=True, kill_workers=True)


def make() -> Peer:
    return Loky()
