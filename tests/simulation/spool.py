"""The spool of a device: what its workers wrote down, and what a power cut leaves of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from grn_zmq.records import Result

Attempt = tuple[str, int]


@dataclass
class SimSpool:
    """An append-only log; what was not synced is lost with the power, from some point on."""

    log: list[tuple[str, Attempt, Result | None]] = field(default_factory=list)
    synced: int = 0

    def started(self, attempt: Attempt, *, sync: bool) -> None:
        self._write("started", attempt, None, sync=sync)

    def finished(self, attempt: Attempt, result: Result, *, sync: bool) -> None:
        self._write("finished", attempt, result, sync=sync)

    def recorded(self, attempt: Attempt) -> None:
        self._write("recorded", attempt, None, sync=False)

    def _write(self, what: str, attempt: Attempt, result: Result | None, *, sync: bool) -> None:
        self.log.append((what, attempt, result))
        if sync:
            self.synced = len(self.log)

    def left(self) -> Iterator[tuple[Attempt, Result | None]]:
        """What nobody has recorded yet; None stands for what was begun and never ended."""
        found: dict[Attempt, Result | None] = {}
        for what, attempt, result in self.log:
            if what == "recorded":
                found.pop(attempt, None)
            else:
                found[attempt] = result
        yield from found.items()

    def cut_power(self, rng: Random) -> None:
        del self.log[rng.randint(self.synced, len(self.log)) :]
        self.synced = len(self.log)
