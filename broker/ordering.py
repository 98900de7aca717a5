"""Who is looked at first. One pure key per waiting job; it never changes while it waits."""

from typing import Final

# A job may be overtaken by one that came this many times its own length later: short jobs
# go first, yet every job is the oldest in the end.
SHORTER_FIRST: Final = 2.0

OrderKey = tuple[int, float, int]


def order_key(
    priority: int, queued_at: float, duration_s: float | None, share: float, number: int
) -> OrderKey:
    """Give the place in the queue: the smallest key is served first.

    Args:
        duration_s: What such jobs took so far; None, for a new type, counts as short, so
            that it is measured soon.
        share: The part of a device it needs. What is large is hard to place, so it steps
            back less for what is short.
    """
    patience_s = SHORTER_FIRST * (duration_s or 0.0) * (1.0 - share)
    return -priority, queued_at + patience_s, number
