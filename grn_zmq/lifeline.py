"""When a process of ours has to end: on these signals, or with the one that started it."""

import os
import signal
import sys

from .keeper import PR_SET_PDEATHSIG, prctl


def ending_signals() -> list[signal.Signals]:
    """The signals that ask a process to end; not SIGHUP where `nohup` has it ignored."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangup]


def end_with_parent(parent_pid: int) -> None:
    """Get SIGTERM when the parent dies; leave now if it is dead already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit("its starter is gone")
