"""One resource of a queue: its instances, how much of each is left, and which one is taken.

An amount is taken of one instance. A whole number of two or more, where every instance has
exactly 1, takes so many of them, all whole. Pure.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from grn_zmq.amounts import format_amount

# So many instances of 1 are taken together at most: who needs more of them surely means a
# pool, `{RAM:[512]}`, and wrote `{RAM:512}`.
MOST_TOGETHER: Final = 64

_ONE: Final = Fraction(1)


class Instances:
    """What there is of one resource, and what is left; that may be below zero."""

    __slots__ = ("_most", "_most_den", "_most_num", "_whole", "capacity", "left", "units")

    def __init__(self, capacity: Mapping[str, Fraction]) -> None:
        self.capacity = dict(capacity)
        self.left = dict(capacity)
        self.units = bool(capacity) and all(one == 1 for one in capacity.values())
        self._look()

    def _look(self) -> None:
        """Note what a need is compared with: that happens far more often than a change."""
        self._most = max(self.left.values(), default=Fraction(0))
        self._most_num, self._most_den = self._most.numerator, self._most.denominator
        self._whole = sum(one == 1 for one in self.left.values()) if self.units else 0

    def has(self, amount: Fraction) -> bool:
        """Whether so much is left. Whole numbers are compared because fractions are slow."""
        wanted, of = amount.numerator, amount.denominator
        if wanted * self._most_den <= self._most_num * of:
            return True
        return self.units and of == 1 and 1 < wanted <= min(self._whole, MOST_TOGETHER)

    def together(self, amount: Fraction) -> bool:
        """Whether so much is taken of several instances."""
        return self.units and amount.denominator == 1 and amount > 1

    def able(self, amount: Fraction) -> list[str]:
        """The instances that may be taken, in the order in which they are chosen.

        That with the least left that is enough comes first, so that large pieces stay; among
        equal ones that which was declared first.
        """
        least = _ONE if self.together(amount) else amount
        enough = [one for one, left in self.left.items() if left >= least]
        return sorted(enough, key=self.left.__getitem__)

    def choose(self, amount: Fraction) -> dict[str, Fraction]:
        """The instances that are taken, and how much of each; there must be enough."""
        if not self.together(amount):
            return {self.able(amount)[0]: amount}
        return dict.fromkeys(self.able(amount)[: int(amount)], _ONE)

    def take(self, taken: Mapping[str, Fraction]) -> None:
        """Take of each so much; what is not one of the instances does not count."""
        self._change((one, -amount) for one, amount in taken.items())

    def give_back(self, taken: Mapping[str, Fraction]) -> None:
        self._change(taken.items())

    def _change(self, changes: Iterable[tuple[str, Fraction]]) -> None:
        for one, amount in changes:
            if one in self.left:
                self.left[one] += amount
        self._look()

    def copy(self) -> "Instances":
        copied = Instances(self.capacity)
        copied.left = dict(self.left)
        copied._look()
        return copied

    def most_left(self, amount: Fraction) -> Fraction:
        """How much could be had now, taken as this amount would be; never below zero."""
        return Fraction(self._whole) if self.together(amount) else max(Fraction(0), self._most)

    def most(self, amount: Fraction) -> Fraction:
        """How much could be had if nobody had any."""
        if self.together(amount):
            return Fraction(len(self.capacity))
        return max(self.capacity.values(), default=Fraction(0))

    def impossible(self, amount: Fraction) -> str:
        """Say why so much can never be had; nothing if it can."""
        most = self.most(amount)
        if not self.together(amount):
            return "" if amount <= most else self._too_large(amount, most)
        if amount > most:
            return f"{amount} are needed, and there are {most}"
        if amount > MOST_TOGETHER:
            return (
                f"{amount} are needed, but of {most} instances of 1 a job gets at most "
                f"{MOST_TOGETHER}. If they are one pool, declare it as a list: [{most}]"
            )
        return ""

    def _too_large(self, amount: Fraction, most: Fraction) -> str:
        needed = f"{format_amount(amount)} is needed"
        count = len(self.capacity)
        if self.units:
            return (
                f"{needed}, but an amount above 1 must be a whole number: it has "
                f"{count} instance{'' if count == 1 else 's'} of 1"
            )
        if count == 1:
            return f"{needed}, and there is {format_amount(most)}"
        return (
            f"{needed} of one instance, and the largest of its {count} has "
            f"{format_amount(most)}"
        )

    def check(self) -> None:
        """Assert that what needs are compared with is what is left."""
        noted = (self._most, self._most_num, self._most_den, self._whole)
        self._look()
        assert noted == (self._most, self._most_num, self._most_den, self._whole)
