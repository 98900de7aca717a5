"""The processes below one: to count what they use, and to leave none of them behind."""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

PAUSE_S: Final = 0.02


def below(pid: int) -> list[int]:
    """The living processes that one has started, and those that these have started."""
    found: list[int] = []
    todo = [pid]
    while todo:
        children = _children(todo.pop())
        found += children
        todo += children
    return [one for one in found if _lives(one)]


def end_below(spared: Collection[int], waits_s: tuple[float, float]) -> list[int]:
    """End all that is below this process; give what had to be killed.

    Whoever calls is their subreaper, so that nothing escapes by letting its parent die.

    Args:
        spared: Processes that stay.
        waits_s: How long they may take by themselves, and after SIGTERM.
    """
    for wait_s, signum in zip(waits_s, (signal.SIGTERM, signal.SIGKILL), strict=True):
        if not _until_gone(spared, wait_s):
            return []
        left = _others(spared)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
    _until_gone(spared, waits_s[-1])
    return left


def _until_gone(spared: Collection[int], wait_s: float) -> list[int]:
    deadline = time.monotonic() + wait_s
    while left := _others(spared):
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return left


def _others(spared: Collection[int]) -> list[int]:
    own = os.getpid()
    for pid in _children(own):
        if pid not in spared:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return [pid for pid in below(own) if pid not in spared]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    return []


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
