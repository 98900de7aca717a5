"""Whether the kernel killed for lack of memory about when a job died."""

from collections import deque
from typing import Final

# From the kernel's count to the end of a large process, and to our hearing of it.
RECENT_S: Final = 1.0


class KernelKills:
    """The kernel's count of a moment ago: a kill before that was of somebody else."""

    def __init__(self, count: int) -> None:
        self._looks = deque([(float("-inf"), count)])

    @property
    def count(self) -> int:
        """What was counted at the last look."""
        return self._looks[-1][1]

    def take(self, count: int, now: float) -> None:
        """Take one look at the counter."""
        self._looks.append((now, count))
        self._drop_old(now)

    def count_before(self, now: float) -> int:
        """What was counted when a process that is found dead now was still alive."""
        self._drop_old(now)
        return self._looks[0][1]

    def _drop_old(self, now: float) -> None:
        """Keep of those that are not recent the last only."""
        while len(self._looks) > 1 and self._looks[1][0] <= now - RECENT_S:
            self._looks.popleft()
