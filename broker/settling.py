"""When a run of a new type has shown what it needs although it has not ended."""

from typing import Final

from .ledger import Lease

# A run that takes nothing is believed after so many times as long.
UNUSED: Final = 10.0


def has_settled(lease: Lease, settle_s: float, now: float) -> bool:
    """Whether it has not grown for long, and for as long as it took to grow.

    Counted from the grant: who needed a minute to start needs another to be believed.
    """
    if lease.used_bytes <= 0:  # it has not begun, or never will
        return now - lease.granted_at >= UNUSED * settle_s
    growing_s = lease.grown_at - lease.granted_at
    quiet_s = now - lease.grown_at
    return quiet_s >= max(settle_s / 2, growing_s) and now - lease.granted_at >= settle_s
