"""Keeps one worker process per device alive."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from loguru import logger

from grn_zmq.backoff import Backoff
from grn_zmq.lifeline import Signalled

from .server import NO_BROKER_STATUS

# Longer than a worker takes to end its jobs.
LEAVE_S: Final = 12.0
# After a broker has told its workers to leave: it would tell those that come at once, too.
STAY_S: Final = 1.0


@dataclass(slots=True)
class _Fostered:
    name: str
    process: "subprocess.Popen[bytes] | None" = None
    pidfd: int = -1
    started_at: float = 0.0
    start_at: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    left: bool = False


class Fosterer:
    """Starts workers, starts them again when they die, and ends them all."""

    def __init__(
        self,
        names: Sequence[str],
        options: Sequence[str],
        leaving: Callable[[], None] = lambda: None,
        *,
        stays: bool = False,
    ) -> None:
        """Prepare; `run` starts.

        Args:
            leaving: Is called when the end begins.
            stays: Whether other workers follow those that a broker tells to leave: they wait
                for the next broker.
        """
        self._fostered = [_Fostered(name) for name in names]
        self._options = list(options)
        self._leaving = leaving
        self._stays = stays
        self._signalled = Signalled()

    def run(self) -> int:
        """Serve until a signal, or until all workers have left for good; give the status."""
        while not self._signalled.stopping:
            self._start_due()
            self._wait()
            self._reap()
            if self._all_have_left():
                return NO_BROKER_STATUS
        self._leaving()
        self._end_all()
        return 0

    def _all_have_left(self) -> bool:
        """Whether those that lived were told to leave; who was not there is not started."""
        told = any(one.left for one in self._fostered)
        return told and not any(one.process for one in self._fostered)

    def _start_due(self) -> None:
        now = time.monotonic()
        for one in self._fostered:
            if one.process is None and not one.left and now >= one.start_at:
                one.started_at = now
                try:
                    self._start(one)
                except OSError as error:  # no process or memory to be had: others go on
                    one.start_at = now + one.backoff.pause_s(0.0)
                    facts = {"device": one.name, "why": str(error)}
                    logger.bind(facts=facts).error("a worker cannot be started now")

    def _start(self, one: "_Fostered") -> None:
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

    def _wait(self) -> None:
        paused = [one for one in self._fostered if not one.process and not one.left]
        pauses = [one.start_at - time.monotonic() for one in paused]
        timeout = max(0.0, min(pauses)) if pauses else None
        watched = [one.pidfd for one in self._fostered if one.process]
        select.select([self._signalled.fileno(), *watched], [], [], timeout)
        self._signalled.take()

    def _reap(self) -> None:
        for one in self._fostered:
            if one.process is None or one.process.poll() is None:
                continue
            status = one.process.returncode
            os.close(one.pidfd)
            one.process = None
            told = status == NO_BROKER_STATUS
            if told and not self._stays:
                one.left = True
                continue
            now = time.monotonic()
            pause_s = one.backoff.pause_s(now - one.started_at)
            one.start_at = now + pause_s
            if told:
                one.start_at = now + STAY_S
                logger.bind(facts={"device": one.name}).info("waiting for the next broker")
            elif not self._signalled.stopping:
                facts = {"device": one.name, "status": status, "pause_s": pause_s}
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
