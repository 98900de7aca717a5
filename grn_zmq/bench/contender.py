"""What is measured: anything that takes calls and gives their values back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from .sizes import Size

# The name of a figure, and one sample of it.
Sample = tuple[str, float]


class Contender(Protocol):
    """Ours, a peer, or the bare echo; `name` is one of `jobs.BODIES`."""

    def start(self, workers: int) -> None:
        """Have so many workers, each of which runs one job at a time."""

    def submit(self, name: str, *args: Any) -> Any:
        """Hand a job over, and give what stands for its value."""

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for the values of what was submitted, in order."""

    def call(self, name: str, *args: Any) -> Any:
        """Run one job and give its value, the way a user would."""

    def stop(self) -> None:
        """Leave nothing behind."""


# A measurement of any contender, on one that was started.
SharedWork = Callable[[Contender, Size], Iterator[Sample]]


class WrongResult(Exception):
    """A contender gave something else than it was asked for: its figures mean nothing."""


def require(condition: bool, what: str) -> None:
    """Give up on a measurement whose results are not what they must be."""
    if not condition:
        raise WrongResult(what)
