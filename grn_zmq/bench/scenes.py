"""What a measurement of ours has to know of its broker while it goes on."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ..cli.asking import ask
from ..facts import Scene
from ..starting import running_pid
from ..wire import AskScene, SceneIs
from .contender import require

# Longer than a broker takes to have in all that was sent to it.
SETTLE_S: Final = 240.0
PAUSE_S: Final = 0.05
NS: Final = 1e9


def broker_pid() -> int:
    pid = running_pid()
    require(pid is not None, "there is no broker")
    return pid or 0


def until_running(count: int) -> None:
    _until(lambda scene: scene.running >= count, f"{count} jobs did not start")


def until_queued(count: int) -> None:
    _until(lambda scene: scene.queued >= count, f"{count} jobs were not queued")


def _until(condition: Callable[[Scene], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not condition(ask(AskScene(0, 0), SceneIs).scene):
        require(time.monotonic() < deadline, f"{otherwise} within {SETTLE_S:.0f} s")
        time.sleep(PAUSE_S)


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def processor_s(pids: Iterable[int]) -> float:
    """What these processes have had of the processor, all their threads together."""
    return sum(_thread_s(task) for pid in pids for task in _tasks(pid))


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _thread_s(task: Path) -> float:
    """Exactly, and not in ticks of 10 ms: of those, idle processes have hardly any."""
    with contextlib.suppress(OSError):
        return int((task / "schedstat").read_text().split()[0]) / NS
    return 0.0
