"""Commands that note what they see and then wait at a gate, without using any time."""

import fcntl
import os
from pathlib import Path

from tests.waiting import until

# Notes its variables under a name, and that it began; then waits until its gate is open.
WAIT = """#!/bin/sh
env > "$1/$2.part"
mv "$1/$2.part" "$1/$2"
echo "$2" >> "$1/begun"
exec flock --shared "$1/$3.gate" true
"""


class Gates:
    """A directory with gates that are closed until they are opened."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._held: dict[str, int] = {}
        self._script = place / "wait.sh"
        self._script.write_text(WAIT)
        self._script.chmod(0o755)

    def command(self, name: str, gate: str = "") -> list[str]:
        """The words of a command of this name; it waits at a gate of its own or at this."""
        gate = gate or name
        if gate not in self._held:
            self._held[gate] = os.open(self.place / f"{gate}.gate", os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._held[gate], fcntl.LOCK_EX)
        return [str(self._script), str(self.place), name, gate]

    def open(self, *gates: str) -> None:
        """Let pass who waits at these gates, or at all."""
        for gate in gates or tuple(self._held):
            os.close(self._held[gate])  # which gives the lock back
            # Who comes later passes, too; and no command closes it again.
            self._held[gate] = os.open(self.place / f"{gate}.gate", os.O_RDONLY)

    def close(self) -> None:
        """Let everybody pass, and hold nothing any more."""
        for gate in self._held.values():
            os.close(gate)
        self._held.clear()

    def begun(self) -> list[str]:
        """The names of the commands that began, in their order."""
        path = self.place / "begun"
        return path.read_text().split() if path.exists() else []

    def await_begun(self, *names: str, seconds: float = 20.0) -> None:
        until(lambda: set(names) <= set(self.begun()), seconds, lambda: f"only {self.begun()}")

    def seen(self, name: str) -> dict[str, str]:
        """The variables that a command saw, once it has begun."""
        self.await_begun(name)
        lines = (self.place / name).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)
