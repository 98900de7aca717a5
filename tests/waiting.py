"""Waiting on conditions with a deadline, and finding processes by a mark."""

import os
import time
from collections.abc import Callable
from pathlib import Path

# Deadlines are for an idle machine; a loaded one gets this many times as long.
PATIENCE = float(os.environ.get("GRN_TEST_PATIENCE", "1"))


def until(
    condition: Callable[[], object],
    seconds: float = 10.0,
    why: Callable[[], str] = lambda: "the condition never came true",
) -> None:
    """Wait until the condition holds; fail with `why()` after the deadline."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{why()} (waited {seconds * PATIENCE:.0f} s)")
        time.sleep(0.01)


def is_marked(pid: int, name: str, value: str) -> bool:
    """Whether this process lives and was started with this variable: pids are used again."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{name}={value}".encode() in environ.split(b"\0")


def processes_marked(name: str, value: str) -> dict[int, str]:
    """The living processes that were started with this variable, ourselves left out."""
    wanted = f"{name}={value}".encode()
    found: dict[int, str] = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        try:
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(directory.name)] = command.decode(errors="replace")
        except OSError:
            continue
    return found
