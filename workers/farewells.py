"""Ends what lives on below another process once its client was killed: `docker rm -f NAME`.

Nothing here waits: a command is started, and what it holds up goes on when it has ended, or
when it has taken too long.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from .environments import FAREWELL_S, Farewell


@dataclass(slots=True)
class _Running:
    process: "subprocess.Popen[bytes]"
    pidfd: int
    deadline: float
    then: Callable[[], None]


class Farewells:
    """The commands that run now."""

    def __init__(self, known_pids: set[int]) -> None:
        """Be ready.

        Args:
            known_pids: Children of this worker that are not the remains of a job.
        """
        self._known_pids = known_pids
        self._running: list[_Running] = []

    def __len__(self) -> int:
        return len(self._running)

    def filenos(self) -> list[int]:
        """What to watch: each becomes readable when its command has ended."""
        return [one.pidfd for one in self._running]

    def begin(self, farewell: Farewell, now: float, then: Callable[[], None]) -> None:
        """Run a command, and let the rest follow; without a command it follows at once."""
        words = farewell.words
        if not words:
            then()
            return
        try:
            process = subprocess.Popen(
                words,
                env=farewell.variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            facts = {"command": words[0], "why": str(error)}
            logger.bind(facts=facts).error("what a killed job left could not be ended")
            then()
            return
        self._known_pids.add(process.pid)
        pidfd = os.pidfd_open(process.pid)
        self._running.append(_Running(process, pidfd, now + FAREWELL_S, then))

    def look(self, now: float) -> None:
        """Go on where a command has ended or takes too long."""
        for one in list(self._running):
            if one.process.poll() is None and now < one.deadline:
                continue
            self._running.remove(one)
            if one.process.poll() is None:
                one.process.kill()
                logger.bind(facts={"seconds": FAREWELL_S}).error(
                    "ending what a killed job left takes too long; it may live on"
                )
            one.process.wait()
            self._known_pids.discard(one.process.pid)
            os.close(one.pidfd)
            one.then()
