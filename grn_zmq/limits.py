"""What a job may say of itself at most. Apart from `records`: options need no wire."""

from typing import Final

MAX_NAME: Final = 4096
MAX_PRIORITY: Final = 1_000_000
MAX_RETRIES: Final = 100
# Nobody waits for ten years; longer is a mistake in units.
MAX_SECONDS: Final = 10 * 366 * 24 * 3600.0
# Between TERM and KILL.
DEFAULT_GRACE_S: Final = 5.0
# From this size on, arguments and results travel by file. In memory that is faster from some
# 64 KiB on, and twice as fast at 256 KiB; on disk a file costs flushes that others share.
SHARED_BYTES: Final = 128 << 10
PARCEL_BYTES: Final = 1 << 20
# How many jobs a client may have submitted without an answer, unless the broker says less.
CREDITS: Final = 1024
# More devices than any machine has.
MAX_DEVICES: Final = 1024
# Of names that people give to queues, resources and environments.
MAX_WORD: Final = 128


def parcel_from(*, detached: bool) -> int:
    """From which size on a payload travels by file."""
    return PARCEL_BYTES if detached else SHARED_BYTES
