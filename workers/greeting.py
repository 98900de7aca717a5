"""Which broker counts: only the one that answered the last greeting. Pure.

A worker that has greeted takes no assignment until it is welcomed, so what its greeting did
not list it will never start: the broker may give that to another.
"""

from collections.abc import Iterable

from grn_zmq import wire
from grn_zmq.records import Held

from .spoollog import Attempt

# What counts only if it is of the broker that welcomed us.
Fenced = wire.Assign | wire.End | wire.Recall | wire.Recorded | wire.Arrived | wire.Unknown


class Fence:
    """The last greeting, and the epoch of who answered it."""

    def __init__(self) -> None:
        self.greeting = 0
        self.epoch = 0
        self.welcomed = False

    def greet(self) -> int:
        """Forget the broker that was; give the number of the greeting that goes out now."""
        self.greeting += 1
        self.welcomed = False
        return self.greeting

    def close(self) -> None:
        """The connection is gone: nobody hears what is said."""
        self.welcomed = False

    def admit(self, welcome: wire.Welcome) -> bool:
        """Take the answer to the last greeting; any other changes nothing."""
        if self.welcomed or welcome.greeting != self.greeting:
            return False
        self.epoch = welcome.epoch
        self.welcomed = True
        return True

    def counts(self, epoch: int) -> bool:
        """Whether a message of this epoch is from the broker that welcomed us."""
        return self.welcomed and epoch == self.epoch


def inventory(
    running: Iterable[Attempt],
    results: Iterable[Attempt],
    interrupted: Iterable[Attempt],
) -> tuple[Held, ...]:
    """Every attempt a worker still answers for."""
    return (
        *(Held(*one, "running") for one in running),
        *(Held(*one, "finished") for one in results),
        *(Held(*one, "interrupted") for one in interrupted),
    )
