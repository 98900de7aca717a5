"""Ends a process with the one that started it, also if that was killed."""

import os
import signal
import sys

from .keeper import PR_SET_PDEATHSIG, prctl


def end_with_parent(parent_pid: int) -> None:
    """Get SIGTERM when the parent dies; leave now if it is dead already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit("its starter is gone")
