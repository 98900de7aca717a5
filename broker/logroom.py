"""Keeps what jobs have printed within bounds, all of it together."""

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from loguru import logger

from grn_zmq import logfiles

# Of all jobs together; each by itself has at most two files of `LOG_BYTES`.
MOST_BYTES: Final = 2 << 30
# When it is too much, so much of it stays: not every look shall find it full again.
LEFT_PART: Final = 0.9
LOOK_S: Final = 600.0


class LogRoom:
    """Looks now and then, and lets go of the oldest logs of jobs that have ended."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._look_at = 0.0

    def tick(self, now: float, is_live: Callable[[str], bool]) -> None:
        """Make room if it is time to look; what live jobs print is left alone."""
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self.make_room(is_live)

    def make_room(self, is_live: Callable[[str], bool]) -> None:
        sizes, written = self._weigh()
        total = sum(sizes.values())
        if total <= self._most_bytes:
            return
        gone = 0
        for job_id in sorted(sizes, key=written.__getitem__):
            if total <= self._most_bytes * LEFT_PART:
                break
            if not is_live(job_id):
                logfiles.remove(self._directory, job_id)
                total -= sizes[job_id]
                gone += 1
        text = "let go of the oldest logs: too much was printed"
        logger.bind(facts={"jobs": gone}).warning(text)

    def _weigh(self) -> tuple[dict[str, int], dict[str, float]]:
        """How many bytes there are of each job, and when it last printed."""
        sizes: dict[str, int] = defaultdict(int)
        written: dict[str, float] = defaultdict(float)
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    job_id = entry.name.partition(".")[0]
                    facts = entry.stat(follow_symlinks=False)
                    sizes[job_id] += facts.st_size
                    written[job_id] = max(written[job_id], facts.st_mtime)
        except OSError:
            return {}, {}  # nobody has printed yet, or somebody cleans up
        return sizes, written
