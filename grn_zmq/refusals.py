"""From the reason of a refusal, as it travels, to the error that its caller gets."""

from typing import Final

from .errors import (
    DiskFull,
    Draining,
    IdConflict,
    Quarantined,
    QueueFull,
    RequestRefused,
    TooManyClients,
)

_KINDS: Final = {
    "queue-full": QueueFull,
    "disk-full": DiskFull,
    "draining": Draining,
    "id-conflict": IdConflict,
    "quarantined": Quarantined,
    "too-many-clients": TooManyClients,
}


def refusal(reason: str, text: str) -> RequestRefused:
    """Give the error for a reason."""
    return _KINDS.get(reason, RequestRefused)(reason, text)
