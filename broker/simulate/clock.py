"""Simulated time: what is to happen when, one after the other."""

from collections.abc import Callable
from heapq import heappop, heappush


class Clock:
    """Jumps from event to event. What is due at the same time happens in the order given."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._due, (max(when, self.now), self._count, happen))

    def advance(self) -> bool:
        """Let the next thing happen; False if nothing is to come."""
        if not self._due:
            return False
        self.now, _, happen = heappop(self._due)
        happen()
        return True
