"""Clients of a system under test that are a few lines of Python each."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
HEAD = """\
import os, signal, sys, threading, time
from concurrent.futures import CancelledError
from pathlib import Path
import grn_zmq as grn
from tests.faults import misdeeds
from tests.faults.direct import Direct
direct = Direct(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
"""


class Program:
    """A process that runs this code, which has `direct` to submit with; and its history.

    Args:
        stays: Whether it is to be told of the end of every job it submits.
    """

    def __init__(
        self, directory: Path, name: str, ledger: Path, code: str, *, stays: bool
    ) -> None:
        self.path = directory / f"{name}.history"
        self.stayed = stays
        self._name = name
        self._said = directory / f"{name}.log"
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HEAD + code, str(directory), str(ledger), name],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._said.read_text()

    def until_out(self, text: str, seconds: float = 15.0) -> None:
        until(lambda: text in self.out or self.process.poll() is not None, seconds, self.said)
        assert text in self.out, self.said()

    def ended(self, seconds: float = 20.0) -> int:
        """Wait for its end and give its status."""
        return self.process.wait(seconds * PATIENCE)

    def wait(self, seconds: float = 20.0) -> None:
        """Wait for its end, whatever that is."""
        self.ended(seconds)

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send a signal; a client that was sent one is not to be told anything any more."""
        self.stayed = False
        self.process.send_signal(signum)

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
            self.process.send_signal(signal.SIGCONT)
        self.process.wait()

    def said(self) -> str:
        return f"{self._name}: status {self.process.poll()}\n{self.out}"
