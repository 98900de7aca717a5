"""The variables that name the devices of this process, for as long as it has leases.

Children inherit them. A process with several leases has all their devices, in the order in
which it got them.
"""

import itertools
import os
import threading
from collections.abc import Mapping
from typing import Final

from .choosing import VISIBLE

# Of several leases, these are joined; of the others the last one counts.
_JOINED: Final = (VISIBLE, "NV_GPU", "GRN_DEVICE")

_lock = threading.RLock()
_before: dict[str, str | None] = {}
_held: dict[int, Mapping[str, str]] = {}
_tokens = itertools.count()


def show(variables: Mapping[str, str]) -> int:
    """Set the variables of one more lease; give the token with which to take them back."""
    with _lock:
        token = next(_tokens)
        for name in variables:
            _before.setdefault(name, os.environ.get(name))
        _held[token] = variables
        _set()
        return token


def hide(token: int) -> None:
    """Take back the variables of a lease; without any, all is as it was before the first."""
    with _lock:
        if _held.pop(token, None) is not None:
            _set()
            if not _held:
                _before.clear()


def outside() -> dict[str, str]:
    """The environment as it is without our leases."""
    with _lock:
        environ = dict(os.environ)
        for name, value in _before.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
        return environ


def devices_before(token: int) -> int:
    """How many devices this process counts before those of a lease."""
    with _lock:
        earlier = [held for other, held in _held.items() if other < token]
        return sum(len(held["GRN_DEVICE"].split(",")) for held in earlier)


def _set() -> None:
    wanted: dict[str, str | None] = dict(_before)
    for held in _held.values():
        wanted.update(held)
    for name in _JOINED:
        if values := [held[name] for held in _held.values() if name in held]:
            wanted[name] = ",".join(values)
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _after_fork() -> None:
    """The leases are the parent's; what it has is what this child may have at most."""
    global _lock
    _lock = threading.RLock()
    _before.clear()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
