"""Broker and workers as children of one process: started in order, ended together."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..client import this_client
from ..discovery import find_address, lock_holder
from ..errors import BrokerRunning, BrokerUnavailable, GrnError
from ..lifeline import ending_signals
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


class TooSlow(GrnError):
    """Broker and workers live but do not get ready."""

    def __init__(self) -> None:
        super().__init__(
            f"broker and workers were not ready within {READY_S:.0f} s, so they were ended. "
            f"Their log is above; --debug makes it longer"
        )


class Supervisor:
    """Starts workers and broker, waits for signals, and leaves nothing behind."""

    def __init__(
        self, options: Sequence[str], broker_options: Sequence[str], debug: bool
    ) -> None:
        self._options = list(options)
        self._broker_options = list(broker_options)
        self._debug = ["--debug"] if debug else []
        self._children: list[subprocess.Popen[bytes]] = []
        self._wakeup, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        self.stopping = False
        for signum in ending_signals():
            signal.signal(signum, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def start(self) -> str:
        """Start everything; give the line that says which devices are managed.

        Raises:
            BrokerRunning: A broker of this user lives already.
            StartFailed: A child ended before all was ready, or a signal came.
            TooSlow: Nothing failed, but nothing got ready either.
            UnsafeDirectory: There is no private place for sockets.
        """
        places = find_places(os.environ)
        places.make()
        holder = lock_holder(places)
        if holder is not None:
            raise BrokerRunning(holder)
        announcement = self._start_workers()
        self._children.insert(0, self._spawn("broker", self._broker_options))
        self._await(lambda: find_address(places) is not None)
        self._await(lambda: self._joined() >= announcement["devices"])
        return str(announcement["text"])

    def _start_workers(self) -> dict[str, Any]:
        """Workers look for their devices first: most starts fail there, if they fail."""
        reading, writing = os.pipe()
        options = ["--announce", str(writing), *self._options]
        workers = self._spawn("workers", options, keep=(writing,))
        os.close(writing)
        self._children.append(workers)
        announced = self._hear(reading)
        if not announced:
            raise StartFailed(workers.wait())
        facts: dict[str, Any] = json.loads(announced)
        return facts

    def _hear(self, reading: int) -> bytes:
        """Read to the end what the workers announce; drivers may take long to answer."""
        said = b""
        deadline = time.monotonic() + READY_S
        with open(reading, "rb", buffering=0) as pipe:
            while not self.stopping:
                wait_s = max(0.0, deadline - time.monotonic())
                ready, _, _ = select.select([reading, self._wakeup], [], [], wait_s)
                if not ready:
                    raise TooSlow
                if reading in ready:
                    piece = pipe.read(4096)
                    if not piece:
                        return said
                    said += piece
        raise StartFailed(0)

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

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not condition():
            for child in self._children:
                if child.poll() is not None:
                    raise StartFailed(child.returncode)
            if self.stopping:
                raise StartFailed(0)
            if time.monotonic() > deadline:
                raise TooSlow
            time.sleep(LOOK_AGAIN_S)

    @staticmethod
    def _joined() -> int:
        try:
            return len(this_client().ask(AskDevices(), DevicesAre).rows)
        except BrokerUnavailable:
            return 0  # it has just died, which is noticed next

    def serve(self, lifeline: int | None = None) -> int:
        """Wait for a signal, for the end of `lifeline`, or for the death of a child."""
        pidfds = [os.pidfd_open(child.pid) for child in self._children]
        watched = [self._wakeup, *pidfds, *([] if lifeline is None else [lifeline])]
        while not self.stopping:
            ready, _, _ = select.select(watched, [], [])
            if lifeline in ready and not os.read(lifeline, 4096):
                break
            if any(child.poll() is not None for child in self._children):
                return 1
        return 0

    def end(self) -> bool:
        """End the workers with their jobs, then the broker; False if nothing was started."""
        this_client().close()
        for child in reversed(self._children):
            if child.poll() is None:
                child.terminate()
            try:
                child.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        return bool(self._children)
