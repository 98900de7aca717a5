"""`claim_gpus` and `release_gpus`: a lease that needs no variable to stay alive.

In the shape of safe-gpu, so that programs written for it change an import and no more.
"""

import os
import threading

from .backends import Placeholder
from .leased import Logger
from .leases import Lease, acquire

_lock = threading.Lock()
_owner: Lease | None = None


def claim_gpus(
    nb_gpus: int = 1,
    placeholder_fn: Placeholder | str | None = None,
    logger: Logger | None = None,
    debug_sleep: float = 0.0,
    *,
    timeout: float | str | None = None,
) -> Lease:
    """Give this process whole devices until `release_gpus`, or until it ends.

    Call it before anything touches CUDA. It waits, unless `timeout` says for how long; see
    `grn.acquire` for the rest. The lease is returned, and kept here as well.

    Args:
        placeholder_fn: A function of a device's number, or "pytorch", "tensorflow", "pycuda".
        debug_sleep: Seconds between the grant and the first use.

    Raises:
        RuntimeError: This process has claimed already.
    """
    global _owner
    with _lock:
        if _owner is not None and _owner.devices:
            raise RuntimeError(
                f"this process has claimed {_owner!r} already: call release_gpus() first, or "
                f"take another with grn.acquire()"
            )
        _owner = acquire(nb_gpus, timeout, placeholder_fn, logger, debug_sleep)
        return _owner


def release_gpus() -> None:
    """Give back what `claim_gpus` got; harmless if there is nothing."""
    global _owner
    with _lock:
        owner, _owner = _owner, None
    if owner is not None:
        owner.release()


def _after_fork() -> None:
    """A claim is its process's own: a child that wants devices claims for itself."""
    global _lock, _owner
    _lock = threading.Lock()
    _owner = None


os.register_at_fork(after_in_child=_after_fork)
