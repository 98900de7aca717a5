"""What a queue has, resource by resource: whether a need fits, and who has how much. Pure.

Amounts are fractions, so that nothing is ever lost or gained by rounding.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from typing import Final, NamedTuple

from .instances import Instances
from .ledger import NOBODY
from .needs import Granted, Needs

# Needs whose answer is remembered until something changes; far more than differ in practice.
MOST_REMEMBERED: Final = 20_000


class Lack(NamedTuple):
    """A resource of which a job needs more than is left, and what there is in all."""

    resource: str
    needed: Fraction
    most_left: Fraction
    capacity: Fraction


class Pools:
    """The capacities of a queue, and what of them its jobs have.

    Jobs in `without` do not count where that is an argument: what they have can be had again.
    A need must not change once it was asked for; equal ones are best one object.
    """

    def __init__(self, capacity: Mapping[str, Mapping[str, Fraction]]) -> None:
        self._pools = {name: Instances(one) for name, one in capacity.items()}
        self._grants: dict[str, Granted] = {}
        # Those that may have more than was left: adopted, or granted beside their ancestors.
        self._beyond: set[str] = set()
        # Answers by the identity of the need, which is kept here so that it stays its own.
        self._fitting: dict[int, Needs] = {}
        self._lacking: dict[int, Needs] = {}
        # Capacities never change, so neither does what can never be had of them.
        self._judged: dict[int, tuple[Needs, str]] = {}

    def impossible(self, needs: Needs) -> str:
        """Say why these can never be granted, with the numbers; nothing if they can."""
        known = self._judged.get(id(needs))
        if known is None:
            if len(self._judged) >= MOST_REMEMBERED:
                self._judged.clear()
            known = self._judged[id(needs)] = (needs, self._judge(needs))
        return known[1]

    def _judge(self, needs: Needs) -> str:
        for name, amount in needs.items():
            pool = self._pools.get(name)
            if pool is None:
                known = ", ".join(self._pools) or "none"
                return f"there is no resource {name!r} (there are: {known})"
            if why := pool.impossible(amount):
                return f"{name}: {why}"
        return ""

    def fits(self, needs: Needs, without: Set[str] = NOBODY) -> bool:
        """Whether all of it is left now."""
        if without and self._count(without):
            return _fit(self._pools_without(needs, without), needs)
        key = id(needs)
        if key in self._lacking:
            return False
        if key in self._fitting:
            return True
        fit = _fit(self._pools, needs)
        known = self._fitting if fit else self._lacking
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[key] = needs
        return fit

    def able(self, resource: str, amount: Fraction, without: Set[str] = NOBODY) -> list[str]:
        """The instances that have so much left, in the order in which they are chosen."""
        pools = self._pools_without((resource,), without)
        return pools[resource].able(amount) if resource in pools else []

    def grant(
        self,
        job_id: str,
        needs: Needs,
        chosen: Mapping[str, Sequence[str]] | None = None,
        without: Set[str] = NOBODY,
    ) -> Granted:
        """Give a job all it needs; it must fit.

        Args:
            chosen: By resource, the instances that were decided on elsewhere.
        """
        assert job_id not in self._grants, f"job {job_id} has its resources already"
        pools = self._pools_without(needs, without)
        assert _fit(pools, needs), f"{needs} of {self.left()}"
        granted: Granted = {}
        for name, amount in needs.items():
            if chosen and name in chosen:
                found = _of_chosen(pools[name], amount, chosen[name])
            else:
                found = pools[name].choose(amount)
            assert all(pools[name].left[one] >= part for one, part in found.items()), name
            granted[name] = found
        if pools is not self._pools:
            self._beyond.add(job_id)
        self._hold(job_id, granted)
        return granted

    def adopt(self, job_id: str, granted: Mapping[str, Mapping[str, Fraction]]) -> None:
        """Let a job have what it was granted before a restart, whatever is left by now."""
        self.release(job_id)
        self._beyond.add(job_id)
        self._hold(job_id, {name: dict(instances) for name, instances in granted.items()})

    def _hold(self, job_id: str, granted: Granted) -> None:
        self._grants[job_id] = granted
        for name, taken in granted.items():
            if name in self._pools:
                self._pools[name].take(taken)
        self._fitting.clear()

    def release(self, job_id: str) -> bool:
        """Take back what a job has; say whether it had anything."""
        granted = self._grants.pop(job_id, None)
        if granted is None:
            return False
        self._beyond.discard(job_id)
        for name, taken in granted.items():
            if name in self._pools:
                self._pools[name].give_back(taken)
        self._lacking.clear()
        return True

    def granted(self, job_id: str) -> Granted:
        """What a job has, by resource and instance."""
        return self._grants.get(job_id, {})

    def holders(self, resource: str) -> list[str]:
        """The jobs that have some of it, in the order in which they got it."""
        return [job_id for job_id, granted in self._grants.items() if resource in granted]

    def left(self) -> Granted:
        """What is left of each instance; nothing where more was granted than there is."""
        return {
            name: {one: max(Fraction(0), left) for one, left in pool.left.items()}
            for name, pool in self._pools.items()
        }

    def lacking(self, needs: Needs, without: Set[str] = NOBODY) -> list[Lack]:
        """The resources of which not enough is left now, with the numbers."""
        pools = self._pools_without(needs, without)
        nothing = Instances({})
        short = {name for name in needs if not pools.get(name, nothing).has(needs[name])}
        return [one for one in self.figures(needs, without) if one.resource in short]

    def figures(self, needs: Needs, without: Set[str] = NOBODY) -> list[Lack]:
        """What could be had of each needed resource now, taken as the need would be."""
        pools = self._pools_without(needs, without)
        nothing = Instances({})
        return [
            Lack(name, amount, pool.most_left(amount), pool.most(amount))
            for name, amount in needs.items()
            for pool in [pools.get(name, nothing)]
        ]

    def ready_at(self, needs: Needs, ends_at: Callable[[str], float], now: float) -> float:
        """When all of it will be left if those who have it end as `ends_at` says.

        Infinity if it never will: somebody's end is not known, or it can never be.
        """
        if self.fits(needs):
            return now
        if not all(name in self._pools for name in needs):
            return math.inf
        ends: dict[str, float] = {}
        for name in needs:
            ends |= {job_id: ends_at(job_id) for job_id in self.holders(name)}
        pools = {name: self._pools[name].copy() for name in needs}
        for job_id, at in sorted(ends.items(), key=lambda one: one[1]):
            _give_back(pools, self._grants[job_id])
            if at == math.inf or _fit(pools, needs):
                return max(now, at)
        return math.inf

    def _count(self, without: Set[str]) -> bool:
        """Whether any of these has something."""
        return any(job_id in self._grants for job_id in without)

    def _pools_without(
        self, names: Iterable[str], without: Set[str]
    ) -> Mapping[str, Instances]:
        """The resources of these names as if some jobs had nothing."""
        if not self._count(without):
            return self._pools
        pools = {name: self._pools[name].copy() for name in names if name in self._pools}
        for job_id in self._grants.keys() & without:
            _give_back(pools, self._grants[job_id])
        return pools

    def check(self) -> None:
        """Assert that what is left is what there is, less what was granted, exactly."""
        for name, pool in self._pools.items():
            taken = [one.get(name, {}) for one in self._grants.values()]
            exceeds = {
                instance
                for job_id in self._beyond
                for instance in self.granted(job_id).get(name, {})
            }
            pool.check()
            for one, amount in pool.capacity.items():
                used = sum((grant.get(one, Fraction(0)) for grant in taken), Fraction(0))
                assert pool.left[one] == amount - used, f"{name} {one}: {pool.left[one]} left"
                assert pool.left[one] >= 0 or one in exceeds, f"{name} {one} is overdrawn"
        assert self._beyond <= self._grants.keys()


def _fit(pools: Mapping[str, Instances], needs: Needs) -> bool:
    for name, amount in needs.items():
        pool = pools.get(name)
        if pool is None or not pool.has(amount):
            return False
    return True


def _give_back(pools: Mapping[str, Instances], granted: Granted) -> None:
    for name, taken in granted.items():
        if name in pools:
            pools[name].give_back(taken)


def _of_chosen(pool: Instances, amount: Fraction, chosen: Sequence[str]) -> dict[str, Fraction]:
    """What is taken of each of the chosen instances: all of one, or one of each."""
    assert len(chosen) == (amount if pool.together(amount) else 1), f"{amount} of {chosen}"
    return dict.fromkeys(chosen, amount / len(chosen))
