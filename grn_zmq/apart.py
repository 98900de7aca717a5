"""A place of its own for a broker that nobody else shall see, and nothing left of it."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .lifeline import ending_signals
from .parcels import find_parcels

_STATE: Final = "XDG_STATE_HOME"
_HOMES: Final = (_STATE, "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")
# Sockets have short names; a temporary directory this deep would leave no room for ours.
_DEEP: Final = 45


@contextlib.contextmanager
def private_home(prefix: str) -> Iterator[Path]:
    """Let this process have brokers of its own, apart from all that its user has.

    For a program that does nothing else: what the ending signals do stays changed, so that
    it leaves by `SystemExit` on a signal, and cannot be stopped while it cleans up.
    """
    before = dict(os.environ)
    for signum in ending_signals():
        if signum != signal.SIGINT:
            signal.signal(signum, _leave)
    deep = len(tempfile.gettempdir()) > _DEEP
    home = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp" if deep else None))
    try:
        places = {name: str(home / name.lower()) for name in _HOMES}
        for place in places.values():
            os.mkdir(place, mode=0o700)
        for name in [name for name in os.environ if name.startswith("GRN_")]:
            del os.environ[name]
        os.environ.update(places, GRN_REPORT="0")  # figures come at the end, all together
        yield home
    finally:
        ignore_signals()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(find_parcels({_STATE: str(home / _STATE.lower())}).shm, True)
        shutil.rmtree(home, ignore_errors=True)


def _leave(signum: int, _: object) -> None:
    sys.exit(128 + signum)


def ignore_signals() -> None:
    """Nothing shall be left behind, however often somebody presses Ctrl-C."""
    for signum in ending_signals():
        signal.signal(signum, signal.SIG_IGN)
