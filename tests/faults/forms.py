"""How much of a fault is injected: a little in every run of the tests, all of it when asked."""

import os
from typing import Final, TypeVar

FULL: Final = os.environ.get("GRN_FAULTS", "") == "full"

T = TypeVar("T")


def pick(little: T, full: T) -> T:
    """Give the one that this run is about."""
    return full if FULL else little
