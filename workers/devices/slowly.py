"""Keep the last reading of something that is too dear to read every time."""

from typing import Final, Generic, TypeVar

Value = TypeVar("Value")

KEEP_S: Final = 0.5
# What reading may take of one core: a fifth.
_REST_PER_READ: Final = 4


class Slowly(Generic[Value]):
    """One value and how long it may still be used."""

    def __init__(self) -> None:
        self._value: Value | None = None
        self._until = 0.0

    def recent(self, now: float) -> Value | None:
        """Return the last reading, or None if it is time for a new one."""
        return self._value if now < self._until else None

    def forget(self) -> None:
        """Let the next look be a new reading."""
        self._until = 0.0

    def keep(self, value: Value, started: float, now: float) -> None:
        """Remember a reading; the longer it took, the longer it serves."""
        self._value = value
        self._until = now + max(KEEP_S, _REST_PER_READ * (now - started))
