"""Trains in the journal, at random: together is as good as one by one, also after a restart."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import trainloading, trainrows, trainwriting
from broker.changes import Batch
from tests.broker.stored import a_journal, a_life, an_end, ids, job_id, queued
from tests.broker.trains import (
    a_ride,
    a_train,
    all_of,
    an_arrival,
    known_to,
    one_by_one,
    rows_in,
)


class Play:
    """Turns at random in which jobs come, move and go, together or alone."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._last = 0
        self._live: dict[int, int] = {}
        self._ended: list[int] = []

    def turns(self, count: int) -> Iterator[Batch]:
        for _ in range(count):
            batch = Batch()
            self._come(batch)
            self._move(batch)
            self._end(batch)
            self._go(batch)
            yield batch

    def _some(self, of: list[int]) -> list[int]:
        """Some of them, mostly in their order and next to each other."""
        chance = self._chance
        start = chance.randrange(len(of) + 1)
        found = of[start : start + chance.randrange(6)]
        if chance.random() < 0.3:
            chance.shuffle(found)
        return found

    def _come(self, batch: Batch) -> None:
        for _ in range(self._chance.randrange(3)):
            first = self._last + self._chance.randrange(1, 3)
            count = self._chance.randrange(1, 7)
            self._last = first + count - 1
            self._live |= dict.fromkeys(range(first, first + count), 0)
            if self._chance.random() < 0.3:
                more = queued(*range(first, first + count))
                batch.jobs += more.jobs
                batch.lives += more.lives
            else:
                payload = bytes(self._chance.choice([0, 90]))
                batch.trains.append(a_train(first, count, payload=payload))

    def _move(self, batch: Batch) -> None:
        for _ in range(self._chance.randrange(3)):
            numbers = self._some(list(self._live))
            self._live |= {one: self._live[one] + 1 for one in numbers}
            attempts = tuple(self._live[one] for one in numbers)
            ride = a_ride(*numbers, device=self._chance.choice(["cuda:0", "cuda:1"]))
            batch.rides.append(replace(ride, attempts=attempts))
        for one in self._some(list(self._live)):
            held = self._chance.random() < 0.5
            batch.lives = [other for other in batch.lives if other.job_id != job_id(one)]
            batch.lives.append(a_life(one, attempt=self._live[one], held=held))

    def _end(self, batch: Batch) -> None:
        for _ in range(self._chance.randrange(3)):
            numbers = self._some(list(self._live))
            payload, keep = bytes(self._chance.choice([0, 90])), self._chance.random() < 0.3
            arrival = an_arrival(*numbers, payload=payload, keep=keep)
            attempts = tuple(self._live.pop(one) for one in numbers)
            batch.arrivals.append(replace(arrival, attempts=attempts))
            self._ended += numbers
        for one in self._some(list(self._live)):
            keep, attempt = self._chance.random() < 0.3, self._live.pop(one)
            batch.ends.append(replace(an_end(one, attempt), keeps_payload=keep))
            self._ended.append(one)

    def _go(self, batch: Batch) -> None:
        for into in (batch.expired, batch.spent, batch.forgotten):
            if self._chance.random() < 0.5:
                into += ids(*self._some(self._ended))
        self._ended = [one for one in self._ended if job_id(one) not in batch.forgotten]


def together_and_alone(chance: random.Random, directory: Path) -> None:
    """Write the same to two journals, start them anew now and then, and compare."""
    one, other = directory / "one" / "state.db", directory / "other" / "state.db"
    turns = list(Play(chance).turns(12))
    starts = sorted({0, len(turns), *(chance.randrange(len(turns)) for _ in range(3))})
    for start, stop in pairwise(starts):
        with a_journal(one) as together, a_journal(other) as alone:
            if chance.random() < 0.5:
                assert list(together.load().jobs) == list(alone.load().jobs)
            for batch in turns[start:stop]:
                together.write(batch)
                alone.write(one_by_one(batch))
                before, numbers = known_to(together), together._numbers
                assert all_of(together) == all_of(alone)
                assert known_to(together) == before
                together._numbers = numbers
    with a_journal(one) as together, a_journal(other) as alone:
        assert all_of(together) == all_of(alone)
        rest = [job.new.spec.job_id for job in together.load().jobs if job.end]
        together.write(Batch(forgotten=rest))
        lives = [(job.new.spec.job_id, job.life) for job in together.load().jobs]
        together.write(Batch(ends=[an_end(int(name, 16), 99) for name, _ in lives]))
        together.write(Batch(forgotten=[name for name, _ in lives]))
        assert rows_in(together) == {}


@pytest.mark.parametrize("limit", [1 << 20, 100])
@settings(max_examples=40, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_together_is_as_good_as_one_by_one(limit: int, chance: random.Random) -> None:
    """With a small limit rows are parted, and what nobody can ask for leaves them."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(trainrows, "ROW_BYTES", limit)
        patch.setattr(trainwriting, "HEAVY_BYTES", limit // 4)
        patch.setattr(trainloading, "HEAVY_BYTES", limit // 4)
        directory = stack.enter_context(TemporaryDirectory())
        together_and_alone(chance, Path(directory))
