"""What is known in memory of the members of trains: little, because there are very many.

A member has a number, which says in which train it is and where in it. Of each train there are
columns besides: in which ride or arrival the last that was said of a member stands, in which
attempt, and what is over for it. A row whose members all stand elsewhere is needed no longer.
"""

from array import array
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

# What is over for a member; whatever is said of it, it has ended.
ENDED: Final = 1
EXPIRED: Final = 2
SPENT: Final = 4
FORGOTTEN: Final = 8

# From so many bytes on, payloads and results are let go before the rest of their row is.
HEAVY_BYTES: Final = 64 << 10


class Train:
    """The members of one row of `trains`, in columns."""

    __slots__ = ("attempts", "first", "flags", "inputs", "left", "marked", "moves")

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.left = count
        # What was last said of a member: its ride, or its arrival if it has ended; else 0.
        self.moves = array("q", bytes(8 * count))
        self.attempts = array("q", bytes(8 * count))
        self.flags = bytearray(count)
        # Whether what is over for them is on the disk.
        self.marked = False
        # Whose payloads are kept, if these are heavy.
        self.inputs: int | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.flags)


class Piece(NamedTuple):
    """Members that stand next to each other: `at` in their train, `of` what was asked for."""

    train: Train
    at: slice
    of: slice

    @property
    def flags(self) -> bytearray:
        return self.train.flags[self.at]


class Members:
    """The members of all trains that are kept."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.trains: dict[int, Train] = {}
        self._firsts: list[int] = []
        # How many members each row still says the last of.
        self.rides: Counter[int] = Counter()
        self.arrivals: Counter[int] = Counter()
        # How many results of a heavy arrival may still be asked for.
        self.results: dict[int, int] = {}
        self.last_ride = 0
        self.last_arrival = 0

    def add(self, first: int, job_ids: Sequence[str]) -> Train:
        train = Train(first, len(job_ids))
        self.trains[first] = train
        insort(self._firsts, first)
        self.numbers.update(zip(job_ids, range(first, train.end), strict=True))
        return train

    def remove(self, train: Train) -> None:
        """Of this train nobody is left."""
        del self.trains[train.first]
        del self._firsts[bisect_right(self._firsts, train.first) - 1]

    def train_of(self, number: int) -> Train | None:
        """Give the train that the job of this number came in."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return None
        train = self.trains[self._firsts[index]]
        return train if number < train.end else None

    def overlaps(self, first: int, end: int) -> bool:
        """Whether one of these numbers is taken."""
        index = bisect_right(self._firsts, end - 1) - 1
        return index >= 0 and self.trains[self._firsts[index]].end > first

    def where(self, job_id: str) -> tuple[Train, int]:
        """Give the train of a member, and its place there.

        Raises:
            KeyError: There is no such member.
        """
        number = self.numbers[job_id]
        train = self.train_of(number)
        assert train is not None
        return train, number - train.first

    def pieces(self, numbers: Sequence[int]) -> Iterator[Piece]:
        """Give these members, as many at once as stand next to each other."""
        start = 0
        while start < len(numbers):
            first = numbers[start]
            train = self.train_of(first)
            assert train is not None
            most = min(len(numbers) - start, train.end - first)
            count = _in_a_row(numbers, start, most)
            at = first - train.first
            yield Piece(train, slice(at, at + count), slice(start, start + count))
            start += count

    def leave(self, rows: Counter[int], moves: Iterable[int]) -> list[int]:
        """Members stand there no longer; give the rows in which nobody does."""
        over = []
        for move, count in Counter(moves).items():
            if move:
                rows[move] -= count
                if not rows[move]:
                    del rows[move]
                    over.append(move)
        return over


def _in_a_row(numbers: Sequence[int], start: int, most: int) -> int:
    """Count how many from there on, at most so many, are each one more than the one before."""
    first = numbers[start]
    # The last one first: where they do not all follow each other, it mostly tells.
    if numbers[start + most - 1] == first + most - 1 and list(
        numbers[start : start + most]
    ) == list(range(first, first + most)):
        return most
    count = 1
    while count < most and numbers[start + count] == first + count:
        count += 1
    return count
