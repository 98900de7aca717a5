"""A terminal with a screen that tests can read: what a person would see, and the keys."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from tests.cli.scripts import HANGS_S, script
from tests.waiting import PATIENCE, until

_TOKEN: Final = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])")
# Of what a program writes at once, as much as the kernel gives.
_CHUNK: Final = 65536


class Screen:
    """A command of ours on a terminal of its own."""

    def __init__(
        self,
        *words: str,
        width: int = 100,
        height: int = 30,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.width, self.height = width, height
        self.in_other_screen = False
        self.raw = b""
        self._text = ""
        self._clear()
        self._ours, self.side = pty.openpty()
        self.resize(width, height)
        self.modes = termios.tcgetattr(self.side)
        self.process = subprocess.Popen(
            script(*words),
            stdin=self.side,
            stdout=self.side,
            stderr=self.side,
            cwd="/",
            env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
            # So that Ctrl-C, Ctrl-Z, a new size and hanging up reach it as signals.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, width: int, height: int) -> None:
        """Be another size, as when somebody drags a window."""
        self.width, self.height = width, height
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def is_given_back(self) -> bool:
        """Whether the terminal is as it was: its first screen, its cursor, its modes."""
        self._take()
        shown = self.raw.rfind(b"\x1b[?25h") >= self.raw.rfind(b"\x1b[?25l")
        same = termios.tcgetattr(self.side) == self.modes
        return shown and same and not self.in_other_screen

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    @property
    def lines(self) -> list[str]:
        """What is to be seen now."""
        self._take()
        return ["".join(line).rstrip() for line in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, text: str, seconds: float = 15.0) -> None:
        """Wait until a text is to be seen."""
        until(lambda: text in self.text, seconds, lambda: f"no {text!r}: {self.said()}")

    def until_gone(self, text: str, seconds: float = 15.0) -> None:
        until(lambda: text not in self.text, seconds, lambda: f"{text!r}: {self.said()}")

    def said(self) -> str:
        return f"status {self.process.poll()}\n{self.text}"

    def ended(self, seconds: float = 20.0) -> int:
        """Wait for its end and give its exit status."""
        until(lambda: self.lines and self.process.poll() is not None, seconds, self.said)
        self._take()
        return self.process.wait()

    def _take(self) -> None:
        while select.select([self._ours], [], [], 0)[0]:
            try:
                data = os.read(self._ours, _CHUNK)
            except OSError:
                return  # the other side is closed
            self.raw += data
            self._text += data.decode(errors="ignore")
            self._apply()

    def _apply(self) -> None:
        at = 0
        while match := _TOKEN.match(self._text, at):
            at = match.end()
            arguments, final, back, down, character = match.groups()
            if final:
                self._obey(arguments, final)
            elif back:
                self._column = 0
            elif down:
                self._line += 1
            elif character and self._line < len(self._cells) and self._column < self.width:
                self._cells[self._line][self._column] = character
                self._column += 1
        self._text = self._text[at:]

    def _obey(self, arguments: str, final: str) -> None:
        if final == "H":
            line, _, column = arguments.partition(";")
            self._line, self._column = int(line or 1) - 1, int(column or 1) - 1
        elif (arguments, final) == ("2", "J"):
            self._clear()
        elif arguments == "?1049":
            self.in_other_screen = final == "h"
            self._clear()

    def _clear(self) -> None:
        self._line = self._column = 0
        self._cells = [[" "] * self.width for _ in range(self.height)]

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        os.close(self._ours)
        self._ours = -1

    def __enter__(self) -> "Screen":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(HANGS_S * PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for fd in (self._ours, self.side):
            if fd >= 0:
                os.close(fd)
