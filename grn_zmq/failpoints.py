"""Named places where a test can make a process fail; nothing happens there otherwise.

A process that was started with the hidden `--failpoints DIR` looks for a file of the place's
name each time it comes by. The file says what to do: `kill`, `exit`, `stop`, `sleep 2` or
`errno ENOSPC`, and with `@3` behind it only when it comes by for the third time. The file is
removed before anything is done, so a place fails once, also when a process comes back.
"""

import errno
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

EXIT_STATUS: Final = 99

_ORDER: Final = re.compile(
    r"(?P<what>kill|exit|stop|sleep|errno)(?: +(?P<how>[\w.]+))?(?: *@(?P<hit>[1-9]\d*))?"
)

_directory: Path | None = None
_hits: Final[Counter[str]] = Counter()


def arm(directory: Path | str | None) -> None:
    """Look for orders in this directory from now on; None or "" for no more."""
    global _directory
    _directory = Path(directory) if directory else None
    _hits.clear()


def failpoint(name: str) -> None:
    """Fail here if a test has ordered it.

    Raises:
        OSError: It was ordered, with this errno.
    """
    if _directory is not None:
        _look(_directory / name)


def _look(path: Path) -> None:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        _hits.pop(path.name, None)  # hits count from the order on
        return
    order = _ORDER.fullmatch(text)
    if order is None:
        raise ValueError(f"failpoint {path.name}: {text!r} is no order")
    _hits[path.name] += 1
    if _hits[path.name] < int(order["hit"] or 1):
        return
    try:
        path.unlink()
    except FileNotFoundError:
        return  # another process came first: the order is for one
    _hits.pop(path.name, None)
    _obey(order["what"], order["how"] or "")


def _obey(what: str, how: str) -> None:
    match what:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(EXIT_STATUS)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            time.sleep(float(how))
        case "errno":
            number = getattr(errno, how)
            raise OSError(number, os.strerror(number))
