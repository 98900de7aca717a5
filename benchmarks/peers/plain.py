"""A peer as most of them are: a call is submitted, and its value asked for."""

from collections.abc import Sequence
from typing import Any


class Peer:
    """What all of them have in common; see `grn_zmq.bench.contender.Contender`."""

    def start(self, workers: int) -> None:
        raise NotImplementedError

    def submit(self, name: str, *args: Any) -> Any:
        raise NotImplementedError

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return [one.result() for one in handles]

    def call(self, name: str, *args: Any) -> Any:
        return self.gather([self.submit(name, *args)])[0]

    def stop(self) -> None:
        raise NotImplementedError
