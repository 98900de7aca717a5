"""Whether the machine is so short of memory that nothing should be kept for later."""

from typing import Final

from .devices.memory import available_bytes, physical_bytes

# Of the machine's memory; with less the kernel is about to look for whom to kill.
LEAST_LEFT_PART: Final = 0.05
READ_S: Final = 5.0


class Pressure:
    """The last reading, which serves for some seconds."""

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._high = False

    def high(self, now: float) -> bool:
        """Whether what is idle should end."""
        if now - self._read_at >= READ_S:
            self._read_at = now
            try:
                self._high = available_bytes() < LEAST_LEFT_PART * physical_bytes()
            except OSError:
                self._high = False
        return self._high
