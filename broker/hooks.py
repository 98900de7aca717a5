"""Starts hooks, a few at once, each in a process of its own; the broker waits for none."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final

from loguru import logger

from .effects import Hook

MOST_AT_ONCE: Final = 8
# More ends than this at once is a sweep that was cancelled: nobody reads so many notes.
MOST_WAITING: Final = 1_000
# Last words when the broker is stopped by order.
LEAVE_S: Final = 5.0


class Hooks:
    """The hooks that run, and those that wait for a place."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._waiting: deque[Hook] = deque()
        self._running: list[subprocess.Popen[bytes]] = []

    def add(self, hook: Hook) -> None:
        """Have it run soon."""
        if len(self._waiting) >= MOST_WAITING:
            logger.bind(facts={"number": hook.facts["number"]}).warning("dropped a hook")
            return
        self._waiting.append(hook)
        self.go_on()

    def go_on(self) -> None:
        """See who has ended, and start the next ones."""
        self._running = [one for one in self._running if one.poll() is None]
        while self._waiting and len(self._running) < MOST_AT_ONCE:
            self._start(self._waiting.popleft())

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._running)

    def _start(self, hook: Hook) -> None:
        log = self._logs / f"{hook.facts['job_id']}.log"
        facts = {**hook.facts, "log": str(log) if log.exists() else None}
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", "grn_zmq.hook"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert child.stdin is not None
            with child.stdin as pipe:  # far less than a pipe holds: this does not block
                pipe.write(json.dumps({"hook": hook.command, "facts": facts}).encode())
            self._running.append(child)
        except OSError as error:
            logger.bind(facts={"why": str(error)}).warning("cannot start a hook")

    def close(self) -> None:
        """Give those that run a moment, then end them."""
        deadline = time.monotonic() + LEAVE_S
        while not self.idle and time.monotonic() < deadline:
            self.go_on()
            self._wait_for_one(deadline)
        for child in self._running:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _wait_for_one(self, deadline: float) -> None:
        if self._running:
            try:
                self._running[0].wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
