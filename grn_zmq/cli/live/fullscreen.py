"""A terminal taken over: its other screen, keys as they are pressed, lines that have changed.

It is given back whatever happens.
"""

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from ...lifeline import ending_signals

# The other screen, no cursor, and no wrapping of what is longer than a line.
_ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE: Final = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEYS_AT_ONCE: Final = 1024


class Signals:
    """The signals of a program that has the terminal: readable when one came."""

    def __init__(self) -> None:
        self.ended_by = 0
        self.suspended = False
        self.resized = False
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "Signals":
        self._reading, self._writing = os.pipe()
        for fd in (self._reading, self._writing):
            os.set_blocking(fd, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for signum in (*ending_signals(), signal.SIGTSTP, signal.SIGWINCH):
            self._before[signum] = signal.signal(signum, self._came)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reading)
        os.close(self._writing)

    def _came(self, signum: int, _: object) -> None:
        if signum == signal.SIGWINCH:
            self.resized = True
        elif signum == signal.SIGTSTP:
            self.suspended = True
        else:
            self.ended_by = self.ended_by or signum

    def fileno(self) -> int:
        return self._reading

    def take(self) -> None:
        """Be unreadable until the next one comes."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 4096)


class FullScreen:
    """The terminal of stdin and stdout, from `with` to its end."""

    def __init__(self) -> None:
        self._in = sys.stdin.fileno()
        self._out = sys.stdout.fileno()
        self._modes: list[Any] = []
        self._drawn: list[str] = []

    def __enter__(self) -> "FullScreen":
        sys.stdout.flush()
        self._modes = termios.tcgetattr(self._in)
        try:
            self._take_over()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_back()

    def _take_over(self) -> None:
        tty.setcbreak(self._in, termios.TCSANOW)
        self._write(_ENTER)
        self._drawn = []

    def _give_back(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._write(_LEAVE)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSANOW, self._modes)

    def suspend(self) -> None:
        """Be stopped, as by Ctrl-Z, on the terminal as it was before; go on afterwards."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take_over()

    def fileno(self) -> int:
        """Readable when a key was pressed."""
        return self._in

    def read(self) -> bytes:
        """What keys have sent; nothing if the terminal is gone."""
        try:
            return os.read(self._in, _KEYS_AT_ONCE)
        except OSError:
            return b""

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self._out)
        except OSError:
            columns, lines = 0, 0
        return columns or 80, lines or 24

    def forget(self) -> None:
        """Draw every line anew: nobody knows what is on the screen."""
        self._drawn = []

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, each as wide as the screen: in one write, and only what changed."""
        if not select.select([], [self._out], [], 0)[1]:
            return  # held by Ctrl-S, or slow: the next frame will do
        known = len(self._drawn) == len(lines)
        parts = [] if known else ["\x1b[2J"]
        for at, line in enumerate(lines):
            if not known or line != self._drawn[at]:
                parts.append(f"\x1b[{at + 1};1H{line}")
        if parts:
            self._write("".join(parts).encode(errors="replace"))
        self._drawn = list(lines)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._out, data) :]
