"""The surroundings of this process as they are now, found unchanged at little cost.

Each call asks whether they are still what they were. What programs do change between two calls
(variables, directory, path, arguments) is compared every time; the umask and the limits, which
cost most and are hardly ever changed, at most every few milliseconds.
"""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from .context import Context, Limit, limits, umask
from .payload import digest
from .records import Blob

# So long a look at umask and limits holds: calls of one burst share it.
LOOK_S: Final = 0.01


class Surroundings:
    """What jobs of this process run in, from one moment until any of it changes."""

    __slots__ = (
        "_blobs",
        "_look_at",
        "argv",
        "cwd",
        "environ",
        "limits",
        "parent",
        "path",
        "umask",
    )

    def __init__(self) -> None:
        self._look_at = time.monotonic() + LOOK_S
        self.cwd = os.getcwd()
        self.path: list[str] = list(sys.path)
        self.argv: list[str] = list(sys.argv)
        self.umask: int = umask()
        self.limits: tuple[Limit, ...] = limits()
        self.environ: dict[Any, Any] = dict(_variables())
        # The job this process is part of, or nothing.
        self.parent = os.environ.get("GRN_JOB_ID", "")
        self._blobs: dict[tuple[Any, ...], Blob] = {}

    def hold(self) -> bool:
        """Whether all is still so."""
        return (
            _variables() == self.environ
            and os.getcwd() == self.cwd
            and sys.path == self.path
            and sys.argv == self.argv
            and (time.monotonic() < self._look_at or self._hold_on())
        )

    def _hold_on(self) -> bool:
        self._look_at = time.monotonic() + LOOK_S
        return umask() == self.umask and limits() == self.limits

    def context(self, extra: Mapping[str, str], cwd: str = "") -> Blob:
        """Give the context of a job.

        Args:
            extra: Variables the job sees in addition, or instead.
            cwd: Another directory to run in; nothing for that of this process.
        """
        key = (cwd, *extra.items())
        blob = self._blobs.get(key)
        if blob is None:
            packed = Context.capture(extra, cwd).to_bytes()
            blob = self._blobs[key] = Blob(digest(packed), packed)
        return blob


_last: Surroundings | None = None


def surroundings() -> Surroundings:
    """Give the surroundings as they are now; the same object as long as nothing changes."""
    global _last
    last = _last
    if last is None or not last.hold():
        last = _last = Surroundings()
    return last


def _variables() -> Mapping[Any, Any]:
    """The environment as it is kept, without decoding it all."""
    kept: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
    return kept
