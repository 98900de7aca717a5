"""Room on the disk of the state file: a floor, and a file to give up when there is none.

Below the floor no jobs are taken, but those that are there still end. Should the disk be full
nevertheless, the ballast is removed: what it held is room for the outcomes.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from loguru import logger

FLOOR_BYTES: Final = 256 << 20
FLOOR_SHARE: Final = 20  # of a small file system no more than this part
BALLAST_BYTES: Final = 32 << 20
BALLAST_SHARE: Final = 8
LOOK_S: Final = 1.0


class Disk:
    """Watches the file system of one directory. Nothing it does can fail."""

    def __init__(
        self, directory: Path, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._ballast = directory / "ballast"
        self._monotonic = monotonic
        self._looked_at = -LOOK_S
        self._roomy = True
        self._told = True

    @property
    def roomy(self) -> bool:
        """Whether jobs may be taken, as of at most a second ago."""
        if self._monotonic() - self._looked_at >= LOOK_S:
            self.look()
        return self._roomy

    def look(self) -> None:
        """See how much is free; make the ballast if it is missing and there is room for it."""
        self._looked_at = self._monotonic()
        try:
            facts = os.statvfs(self._directory)
        except OSError:
            self._roomy = False
            return
        free = facts.f_bavail * facts.f_frsize
        total = facts.f_blocks * facts.f_frsize
        floor = min(FLOOR_BYTES, total // FLOOR_SHARE)
        size = min(BALLAST_BYTES, total // BALLAST_SHARE)
        ready = self._has_ballast(size) or (free >= floor + size and self._load(size))
        self._roomy = ready and free >= floor
        self._tell(free, floor)

    def _has_ballast(self, size: int) -> bool:
        try:
            # Its blocks, not its length: one that was cut off in the making holds nothing.
            return self._ballast.stat().st_blocks * 512 >= size
        except OSError:
            return False

    def _load(self, size: int) -> bool:
        """Make the ballast, or give False: a quota does not show in what is free."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(self._ballast, flags, 0o600)
            try:
                os.posix_fallocate(handle, 0, size)
            finally:
                os.close(handle)
        except OSError:
            self.give_up()
            return False
        return True

    def _tell(self, free: int, floor: int) -> None:
        if self._roomy != self._told:
            self._told = self._roomy
            facts = {"directory": str(self._directory), "free": free, "floor": floor}
            if self._roomy:
                logger.bind(facts=facts).info("the disk has room again: jobs are taken")
            else:
                logger.bind(facts=facts).error("the disk is nearly full: no jobs are taken")

    def give_up(self) -> bool:
        """Remove the ballast; False if there was none."""
        try:
            self._ballast.unlink()
        except OSError:
            return False
        self._roomy = False
        return True

    def close(self) -> None:
        """Leave nothing behind: who starts next makes it again."""
        with contextlib.suppress(OSError):
            self._ballast.unlink()
