"""Commands of ours on a terminal of their own."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping

from tests.cli.scripts import script
from tests.waiting import PATIENCE


def on_a_terminal(
    *words: str,
    columns: int = 80,
    lines: int = 24,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """What a command writes to a terminal of this size; `stdin` is typed into it."""
    ours, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        script(*words),
        stdin=side,
        stdout=side,
        stderr=side,
        cwd="/",
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **(environment or {})},
    )
    os.close(side)
    os.write(ours, stdin)
    said = b""
    try:
        while data := os.read(ours, 4096):
            said += data
    except OSError:
        pass  # EIO: the other side is closed
    os.close(ours)
    process.wait(20 * PATIENCE)
    return said
