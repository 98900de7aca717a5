"""What every contender runs. Light to import, so that nobody pays for another's libraries."""

import os
import time
from collections.abc import Callable
from typing import Any, Final

# Nobody is held longer, should whoever holds it be gone.
HOLD_S: Final = 600.0
LOOK_S: Final = 0.005


def noop() -> int:
    return 1


def echo(value: Any) -> Any:
    return value


def hold(path: str) -> int:
    """Keep a worker busy until there is such a file; the process says which one it was."""
    until_s = time.monotonic() + HOLD_S
    while not os.path.exists(path) and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    return os.getpid()


BODIES: Final[dict[str, Callable[..., Any]]] = {"noop": noop, "echo": echo, "hold": hold}
