"""Orders a broker to stop until all that belongs to it has ended."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Final

from ...discovery import find_address
from ...errors import RequestRefused
from ...paths import Places
from ...wire import Stop, Stopping
from ..asking import Asker
from ..common import counted

# A broker that says nothing for so long is not asked any more: its supervisor has to end it.
SILENT_S: Final = 5.0
# So has it if workers take longer than this to end their jobs.
LEAVE_S: Final = 20.0
STOP_S: Final = 60.0
ANSWER_S: Final = 1.0
ASK_AGAIN_S: Final = 0.25


class Stopper:
    """One `grn stop`. The order is repeated: a broker that dies meanwhile comes back."""

    def __init__(
        self, places: Places, above: int, drain: bool, tell: Callable[[str], None] | None
    ) -> None:
        """Prepare to stop.

        Args:
            above: The pid of the supervisor, or of a broker that has none.
            tell: Gets a line for each change; None for nothing.
        """
        self.kept = 0
        self.ended = 0
        self._places = places
        self._above = above
        self._drain = drain
        self._tell = tell
        self._said = ""
        self._watched: dict[int, int] = {}
        self._asked: tuple[int, Asker] | None = None
        self._signalled = False
        self._watch(above)

    def run(self) -> bool:
        """Stop it; False if something still lives after a minute, which a drain may last."""
        begun = heard = time.monotonic()
        try:
            while self._watched:
                now = time.monotonic()
                if self._order():
                    heard = now
                if now - heard > SILENT_S or (not self._drain and now - begun > LEAVE_S):
                    self._signal()
                if now - begun > STOP_S and (self._signalled or not self._drain):
                    return False
                self._wait()
            return True
        finally:
            self._leave()
            for pidfd in self._watched.values():
                os.close(pidfd)

    def _order(self) -> bool:
        """Whether the broker has taken the order, again."""
        address = find_address(self._places)
        if address is None:
            return False
        with contextlib.suppress(RequestRefused):  # another version: its supervisor ends it
            asker = self._asker(address.pid, address.clients)
            answer = asker.ask(Stop(self._drain), Stopping, ANSWER_S)
            if answer is None:
                return False
            self.kept = answer.kept
            self._say(answer.running)
            if not self._drain:
                self.ended = self.ended or answer.running
            return True
        return False

    def _asker(self, pid: int, clients: str) -> Asker:
        if self._asked is None or self._asked[0] != pid:
            self._leave()
            self._asked = (pid, Asker(clients))
            self._watch(pid)
            # Nobody waits for the workers of a broker that was started by itself: we do.
            for row in self._asked[1].devices(ANSWER_S):
                self._watch(row.worker_pid)
        return self._asked[1]

    def _leave(self) -> None:
        if self._asked is not None:
            self._asked[1].close()

    def _say(self, running: int) -> None:
        if self._drain:
            text = f"waiting for {counted(running, 'job')}…" if running else ""
        else:
            count = self.ended or running
            them = "it" if count == 1 else "them"
            ending = f"Ending {counted(count, 'running job')} (--drain would wait for {them})"
            text = ending if running else ""
        if self._tell is not None and text and text != self._said:
            self._tell(text)
        self._said = text

    def _signal(self) -> None:
        if not self._signalled and self._above in self._watched:
            signal.pidfd_send_signal(self._watched[self._above], signal.SIGTERM)
        self._signalled = True

    def _watch(self, pid: int) -> None:
        if pid and pid not in self._watched:
            with contextlib.suppress(ProcessLookupError):
                self._watched[pid] = os.pidfd_open(pid)

    def _wait(self) -> None:
        """Wait for a while, or for the end of one of them."""
        ended, _, _ = select.select(list(self._watched.values()), [], [], ASK_AGAIN_S)
        for pid, pidfd in list(self._watched.items()):
            if pidfd in ended:
                os.close(self._watched.pop(pid))
