"""How soon a process of ours that died is started again."""

from typing import Final

FIRST_PAUSE_S: Final = 0.1
# Whatever happens, one that can serve does so again within 3 s.
LONGEST_PAUSE_S: Final = 1.0
# One that lived so long did not die of how it was started.
STEADY_S: Final = 5.0


class Backoff:
    """Pauses that double while a process keeps dying young."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def pause_s(self, lived_s: float) -> float:
        """Give the pause after a life of so many seconds."""
        if lived_s >= STEADY_S:
            self._next_s = FIRST_PAUSE_S
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return pause_s
