"""A quick look at all devices: most waiting jobs can be told at once that nobody has room."""

from collections.abc import Iterable
from dataclasses import dataclass

from .peers import Worker
from .reserving import Reservation


@dataclass(slots=True)
class Room:
    """One device: what is free (`idle` or not), and the variance of what is expected there.

    `late_bytes` is what a job may have of it that would outlast a reservation.
    """

    worker: str
    free_bytes: int
    late_bytes: int
    variance: float
    idle: bool
    slack_bytes: int


class Rooms:
    """The devices as the scheduling pass finds them, idle processes counted as free."""

    def __init__(
        self, workers: Iterable[Worker], sigmas: float, kept: Reservation | None
    ) -> None:
        self._factor = sigmas**2
        self._sigmas = sigmas
        self._kept = kept
        self._rooms: dict[str, Room] = {}
        self._opened: set[str] = set()
        # The most that can fit where something has opened: more need not be looked at.
        self.opened_bytes = 0
        # The most that can fit anywhere.
        self.roomiest_bytes = 0
        for worker in workers:
            if worker.ledger.opened:
                self._opened.add(worker.incarnation)
            self._look(worker)
        self._sort()

    def keep(self, kept: Reservation | None, workers: Iterable[Worker]) -> None:
        """Something is kept from now on: see what that leaves to others."""
        if kept is not None:
            self._kept = kept
            for worker in workers:
                if worker.incarnation in self._rooms:
                    self._look(worker)
            self._sort()

    def look(self, worker: Worker) -> None:
        """Look at a device again: something was promised there."""
        self._look(worker)
        self._sort()

    def _sort(self) -> None:
        opened = (self._rooms.get(one) for one in self._opened)
        slacks = [one.slack_bytes for one in opened if one is not None]
        self.opened_bytes = max([0, *slacks])  # those of unknown need are always looked at
        self.roomiest_bytes = max([0, *(one.slack_bytes for one in self._rooms.values())])
        self._roomy_first = sorted(self._rooms.values(), key=lambda room: -room.free_bytes)

    def _look(self, worker: Worker) -> None:
        ledger = worker.ledger
        if ledger.closed:
            self._rooms.pop(worker.incarnation, None)
            return
        idle = not ledger.leases
        free = ledger.free_bytes() + ledger.idle_bytes - (0 if idle else ledger.guard_bytes)
        late = free
        if self._kept is not None:
            late = min(free, self._kept.spare_bytes.get(worker.incarnation, free))
        variance = ledger.variance
        slack = free if idle else free - int(self._sigmas * variance**0.5)
        self._rooms[worker.incarnation] = Room(
            worker.incarnation, free, late, variance, idle, slack
        )

    def for_need(self, lease_bytes: int, variance: float, *, in_time: bool) -> list[str]:
        """The devices that may have room for a job; without any there is nothing to decide.

        Args:
            variance: Of the job's own need; what it shares with others there is left out.
            in_time: Whether it may have what a reservation leaves only for a while.
        """
        found: list[str] = []
        for room in self._roomy_first:
            spare = room.free_bytes - lease_bytes
            if spare < 0:
                break
            if not in_time:
                spare = room.late_bytes - lease_bytes
            if spare >= 0 and (
                room.idle or spare * spare >= self._factor * (room.variance + variance)
            ):
                found.append(room.worker)
        return found
