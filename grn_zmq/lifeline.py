"""When a process of ours has to end: on these signals, or with the one that started it."""

import contextlib
import os
import signal
import sys

from .keeper import PR_SET_PDEATHSIG, prctl


def ending_signals() -> list[signal.Signals]:
    """The signals that ask a process to end; not SIGHUP where `nohup` has it ignored."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangup]


class Signalled:
    """The ending signals of a process that waits in `select`: readable when one came."""

    def __init__(self) -> None:
        self.stopping = False
        self.hurrying = False
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for signum in ending_signals():
            signal.signal(signum, self._came)

    def _came(self, signum: int, _: object) -> None:
        # Only a person sends a second one because the first takes too long.
        self.hurrying |= self.stopping and signum == signal.SIGINT
        self.stopping = True

    def fileno(self) -> int:
        return self._reading

    def take(self) -> None:
        """Be unreadable until the next one comes."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 4096)


def end_with_parent(parent_pid: int) -> None:
    """Get SIGTERM when the parent dies; leave now if it is dead already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit("its starter is gone")
