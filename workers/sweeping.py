"""Proof that nothing lives of a worker that died: what carries its mark is killed first."""

import os
import signal
import time
from collections.abc import Collection
from typing import Final

from loguru import logger

from grn_zmq.keeper import descendants, send_signal

# In the environment of every job process and keeper, and of all they start.
MARK: Final = "GRN_WORKER"
PAUSE_S: Final = 0.01
# A killed process is gone in milliseconds; one that hangs in the kernel is worth a line.
LONG_S: Final = 5.0


def sweep(incarnations: Collection[str]) -> int:
    """Kill all that these incarnations of a worker left; returns once it is gone.

    Returns:
        How many processes there were.
    """
    if not incarnations:
        return 0
    marks = {f"{MARK}={one}".encode() for one in incarnations}
    met: set[int] = set()
    told = False
    began = time.monotonic()
    while found := [pid for pid in _all_pids() if _is_marked(pid, marks)]:
        for pid in found:
            # Whoever emptied its environment is found through its parent.
            for one in (*descendants(pid), pid):
                send_signal(one, signal.SIGKILL)
                met.add(one)
        if not told and time.monotonic() - began > LONG_S:
            told = True
            logger.bind(facts={"pids": found}).warning("processes of a dead worker do not end")
        time.sleep(PAUSE_S)
    return len(met)


def _all_pids() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def _is_marked(pid: int, marks: set[bytes]) -> bool:
    """Whether a process lives and carries a mark; the dead have no environment any more."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:
            return not marks.isdisjoint(environ.read().split(b"\0"))
    except OSError:
        return False
