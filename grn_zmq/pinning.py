"""The GPU a process stays on, and the variables that name it while inline jobs run.

CUDA stays on the device it was first used on, so all inline jobs of a process get that one.
"""

import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .client import Client
from .errors import DeviceError
from .records import Begun
from .wire import AskDevices, DevicesAre

VISIBLE = "CUDA_VISIBLE_DEVICES"

_lock = threading.Lock()
_pinned = ""
# The session whose broker was seen to have the pinned device, or to have no GPUs at all.
_checked: tuple[str, str] = ("", "")

_before: dict[str, str | None] = {}
_active: dict[int, Mapping[str, str]] = {}
_tokens = itertools.count()


def pin_of(client: Client) -> str:
    """Give the device that inline jobs of this process must have, or nothing.

    Raises:
        DeviceError: This process has used a GPU that its broker does not manage.
    """
    global _checked
    if not _pinned:
        return ""
    session, pin = _checked
    if session == client.session:
        return pin
    rows = client.ask(AskDevices(), DevicesAre).rows
    gpus = [row.facts.uuid for row in rows if row.facts.kind == "nvml"]
    if gpus and _pinned not in gpus:
        raise DeviceError(
            f"this process has used GPU {_pinned}, which its broker does not manage, and CUDA "
            f"cannot change devices. Run the function in a process of its own: inline=False"
        )
    pin = _pinned if gpus else ""
    _checked = (client.session, pin)
    return pin


def takes_pin(client: Client, begun: Begun) -> bool:
    """Pin this process to the device of its first inline job; False if it is another."""
    global _pinned, _checked
    device = begun.environment.get(VISIBLE, "")
    with _lock:
        if device and not _pinned:
            _pinned = device
            _checked = (client.session, device)
        return device in ("", _pinned)


@contextmanager
def device_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these while the body runs, beside those of other threads; then put back."""
    with _lock:
        token = next(_tokens)
        for name in variables:
            _before.setdefault(name, os.environ.get(name))
        _active[token] = variables
        _show()
    try:
        yield
    finally:
        with _lock:
            del _active[token]
            _show()
            if not _active:
                _before.clear()


def _show() -> None:
    """Set what the job that began last has; without any, what was before the first."""
    wanted: dict[str, str | None] = dict(_before)
    if _active:
        wanted.update(_active[max(_active)])
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
