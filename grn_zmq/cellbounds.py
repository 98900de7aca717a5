"""How large the figures of a cell can be: what the broker takes, and import refuses before."""

from collections.abc import Mapping
from typing import Final

from .limits import MAX_SECONDS

# Larger than any device.
MOST_BYTES: Final = 1 << 56
# Nobody counts so far; what is put must leave room for what is learned on top of it.
MOST_RUNS: Final = 1_000_000_000

MOST: Final[Mapping[str, float]] = {
    **dict.fromkeys(("runs", "trust", "ooms", "failures"), MOST_RUNS),
    **dict.fromkeys(("mean_bytes", "max_bytes", "need_bytes"), MOST_BYTES),
    **dict.fromkeys(("bound_bytes", "stand_in_bytes"), MOST_BYTES),
    "squares": 2.0**99,
    **dict.fromkeys(("last_s", "before_s", "solo_s"), MAX_SECONDS),
    **dict.fromkeys(("utilisation", "mean_utilisation"), 1.0),
}
