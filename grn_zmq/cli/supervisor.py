"""Broker and workers as children of one process: started in order, ended together."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO, Final

from ..client import this_client
from ..discovery import find_address, is_locked
from ..errors import BrokerRunning, GrnError
from ..paths import find_places
from ..wire import AskDevices, DevicesAre

READY_S: Final = 60.0
LEAVE_S: Final = 15.0
LOOK_AGAIN_S: Final = 0.02


class StartFailed(GrnError):
    """Broker or workers ended before they were ready; they have said why themselves."""

    def __init__(self, status: int) -> None:
        super().__init__(f"broker and workers did not start (status {status})")
        self.status = status


class Supervisor:
    """Starts workers and broker, waits for signals, and leaves nothing behind."""

    def __init__(self, options: Sequence[str], debug: bool) -> None:
        self._options = list(options)
        self._debug = ["--debug"] if debug else []
        self._children: list[subprocess.Popen[bytes]] = []
        self._wakeup, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        self.stopping = False
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def start(self) -> str:
        """Start everything; give the line that says which devices are managed.

        Raises:
            BrokerRunning: A broker of this user lives already.
            StartFailed: A child ended before all was ready.
        """
        places = find_places(os.environ)
        if is_locked(places):
            address = find_address(places)
            raise BrokerRunning(address.pid if address else 0)
        announcement = self._start_workers()
        self._children.insert(0, self._spawn("broker", []))
        self._await(lambda: find_address(places) is not None)
        self._await(lambda: self._joined() >= announcement["devices"])
        return str(announcement["text"])

    def _start_workers(self) -> dict[str, int]:
        """Workers look for their devices first: most starts fail there, if they fail."""
        reading, writing = os.pipe()
        options = ["--announce", str(writing), *self._options]
        workers = self._spawn("workers", options, keep=(writing,))
        os.close(writing)
        self._children.append(workers)
        with open(reading, "rb") as said:
            announced = said.read()
        if not announced:
            raise StartFailed(workers.wait())
        facts: dict[str, int] = json.loads(announced)
        return facts

    def _spawn(
        self, what: str, options: Sequence[str], keep: Sequence[int] = ()
    ) -> "subprocess.Popen[bytes]":
        # Sessions of their own: Ctrl-C at the terminal reaches them through us, in order.
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                f"grn_zmq.{what}",
                "--supervisor",
                str(os.getpid()),
                *self._debug,
                *options,
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(keep),
            start_new_session=True,
        )

    def _await(self, condition: "object") -> None:
        assert callable(condition)
        deadline = time.monotonic() + READY_S
        while not condition():
            for child in self._children:
                if child.poll() is not None:
                    raise StartFailed(child.returncode)
            if self.stopping or time.monotonic() > deadline:
                raise StartFailed(1)
            time.sleep(LOOK_AGAIN_S)

    @staticmethod
    def _joined() -> int:
        return len(this_client().ask(AskDevices(), DevicesAre).rows)

    def serve(self, lifeline: IO[bytes] | None = None) -> int:
        """Wait for a signal, for the end of `lifeline`, or for the death of a child."""
        pidfds = [os.pidfd_open(child.pid) for child in self._children]
        watched = [self._wakeup, *pidfds, *([lifeline.fileno()] if lifeline else [])]
        while not self.stopping:
            ready, _, _ = select.select(watched, [], [])
            if lifeline and lifeline.fileno() in ready and not lifeline.read1(4096):  # type: ignore[attr-defined]
                break
            if any(child.poll() is not None for child in self._children):
                return 1
        return 0

    def end(self) -> None:
        """End the workers with their jobs, then the broker."""
        this_client().close()
        for child in reversed(self._children):
            if child.poll() is None:
                child.terminate()
            try:
                child.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
