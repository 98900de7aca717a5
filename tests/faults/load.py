"""Clients of a system under test, seen from the test."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.client import Order
from tests.faults.ledger import read_history
from tests.waiting import until

ROOT = Path(__file__).parents[2]


class Load:
    """One client process and its history."""

    def __init__(self, directory: Path, name: str, order: Order) -> None:
        self.name = name
        self.path = directory / f"{name}.history"
        self.order = order
        self.killed = False
        order.write(directory / f"{name}.order")
        with open(directory / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.faults.client",
                    str(directory / f"{name}.order"),
                    str(self.path),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._log = directory / f"{name}.log"

    @property
    def stayed(self) -> bool:
        """Whether it was to be told of every end."""
        return not (self.killed or self.order.leave)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def count(self, event: str) -> int:
        return sum(1 for one in read_history(self.path) if one["event"] == event)

    def facts(self, event: str) -> list[dict[str, Any]]:
        return [one for one in read_history(self.path) if one["event"] == event]

    def until(self, event: str, count: int, seconds: float = 20.0) -> None:
        """Wait until it has written so many of these: submitted, accepted, told …"""
        until(lambda: self.count(event) >= count, seconds, self.said)

    def wait(self, seconds: float = 30.0) -> None:
        """Wait for its end, which must be a good one unless it was killed."""
        until(lambda: self.ended, seconds, self.said)
        assert self.process.returncode == 0 or self.killed, self.said()

    def kill(self, signum: int = signal.SIGKILL) -> None:
        self.killed = True
        self.process.send_signal(signum)

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.wait()

    def said(self) -> str:
        counts = {one: self.count(one) for one in ("submitted", "accepted", "told", "refused")}
        status = self.process.poll()
        return f"{self.name}: {counts}, status {status}\n{self._log.read_text()}"
