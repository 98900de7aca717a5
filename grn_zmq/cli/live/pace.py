"""How many jobs end in a second, from a count of all that ever ended."""

from collections import deque
from typing import Final

# Long enough to be steady, short enough to be about now.
OVER_S: Final = 10.0


class Pace:
    """Looks back over the last ten seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()

    def note(self, ended: int, now: float) -> None:
        """So many have ended by now; fewer than before are those of another broker."""
        if self._counts and ended < self._counts[-1][1]:
            self._counts.clear()
        self._counts.append((now, ended))
        while len(self._counts) > 2 and self._counts[1][0] <= now - OVER_S:
            self._counts.popleft()

    @property
    def per_second(self) -> float | None:
        """Jobs in a second; None before the second count."""
        if len(self._counts) < 2:
            return None
        (then, before), (now, ended) = self._counts[0], self._counts[-1]
        return (ended - before) / (now - then) if now > then else None
