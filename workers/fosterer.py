"""Keeps one worker process per device alive."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loguru import logger

from grn_zmq.lifeline import ending_signals

from .server import NO_BROKER_STATUS

# A worker that died is started again after 0.1 s, doubling to 2 s while it keeps dying.
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
STEADY_S: Final = 5.0
# Longer than a worker takes to end its jobs.
LEAVE_S: Final = 12.0


@dataclass(slots=True)
class _Fostered:
    name: str
    process: "subprocess.Popen[bytes] | None" = None
    pidfd: int = -1
    started_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    start_at: float = 0.0


class Fosterer:
    """Starts workers, starts them again when they die, and ends them all."""

    def __init__(self, names: Sequence[str], max_jobs: int | None, debug: bool) -> None:
        self._fostered = [_Fostered(name) for name in names]
        self._options = ["--debug"] if debug else []
        if max_jobs is not None:
            self._options += ["--max-jobs", str(max_jobs)]
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Serve until a signal, or until the broker is gone; give the exit status."""
        wakeup, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        for signum in ending_signals():
            signal.signal(signum, self._stop)
        while not self._stopping:
            self._start_due()
            self._wait(wakeup)
            self._reap()
        self._end_all()
        return self._status

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start_due(self) -> None:
        now = time.monotonic()
        for one in self._fostered:
            if one.process is None and now >= one.start_at:
                # A session of its own: Ctrl-C at the terminal reaches it through us only.
                one.process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "grn_zmq.workers.worker",
                        "--device",
                        one.name,
                        "--parent",
                        str(os.getpid()),
                        *self._options,
                    ],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                one.pidfd = os.pidfd_open(one.process.pid)
                one.started_at = now

    def _wait(self, wakeup: int) -> None:
        pauses = [one.start_at - time.monotonic() for one in self._fostered if not one.process]
        timeout = max(0.0, min(pauses)) if pauses else None
        watched = [one.pidfd for one in self._fostered if one.process]
        select.select([wakeup, *watched], [], [], timeout)

    def _reap(self) -> None:
        for one in self._fostered:
            if one.process is None or one.process.poll() is None:
                continue
            status = one.process.returncode
            os.close(one.pidfd)
            one.process = None
            if status == NO_BROKER_STATUS:
                self._status, self._stopping = NO_BROKER_STATUS, True
                continue
            steady = time.monotonic() - one.started_at >= STEADY_S
            one.pause_s = FIRST_PAUSE_S if steady else min(one.pause_s * 2, LONGEST_PAUSE_S)
            one.start_at = time.monotonic() + one.pause_s
            if not self._stopping:
                facts = {"device": one.name, "status": status, "pause_s": one.pause_s}
                logger.bind(facts=facts).error("a worker died; it is started again")

    def _end_all(self) -> None:
        alive = [one.process for one in self._fostered if one.process]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + LEAVE_S
        for process in alive:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
