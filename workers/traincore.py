"""What trains need of the worker's core. Pure."""

from typing import Protocol

from grn_zmq import wire
from grn_zmq.records import Result

from .effects import Effect
from .events import Returned
from .runs import ActiveRun, Processes
from .spoollog import ReturnedRecord


class Core(Protocol):
    """What trains need of the worker's core."""

    runs: dict[str, ActiveRun]
    processes: Processes

    @property
    def leaving(self) -> bool:
        """Whether the worker is about to end."""

    @property
    def epoch(self) -> int:
        """Of the broker that counts."""

    def tell(self, message: wire.FromWorker) -> list[Effect]:
        """Say this, if anybody hears it."""

    def finish(self, active: ActiveRun, result: Result, now: float) -> list[Effect]:
        """An attempt has ended."""

    def make_idle(self, key: int, now: float) -> list[Effect]:
        """A job process has nothing to do."""

    def returned(self, key: int, returned: Returned, now: float) -> list[Effect]:
        """The function of the current call has ended."""

    def answer_for(self, record: ReturnedRecord, now: float) -> None:
        """Keep these until they are recorded."""
