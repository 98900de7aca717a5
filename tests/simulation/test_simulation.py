"""Hundreds of seeded stories with crashing peers, a crashing broker and power cuts."""

import os
from typing import Final

import pytest

from grn_zmq import wire
from tests.simulation.world import World

SEEDS: Final = int(os.environ.get("GRN_SIM_SEEDS", "300"))
CHUNKS: Final = 10
# What must never happen, or only after a power cut.
RARE: Final = {"unknown"}
# What too few of these stories come to.
SOMETIMES: Final = {"stop", "stopping", "leave", "recall"}
ACTS: Final = {
    "crash",
    "die",
    "reconnect",
    "fall_silent",
    "leave",
    "call_a_job",
    "repeat_something",
    "kill",
    "power",
}


def run(seed: int) -> World:
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return world


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_story_ends_well(chunk: int) -> None:
    seen: set[str] = set()
    for seed in range(chunk, SEEDS, CHUNKS):
        world = run(seed)
        seen |= set(world.census)
        seen |= {end.outcome.outcome for end in world.disk.tables.ends.values()}

    if SEEDS >= 300:  # enough stories for everything to happen in each chunk
        assert seen >= set(wire.MESSAGES) - RARE - SOMETIMES
        assert seen >= ACTS | {"lost", "cancelled", "succeeded"}


def test_a_story_follows_from_its_seed() -> None:
    assert run(3).census == run(3).census


def test_among_many_stories_some_are_stopped_by_order() -> None:
    census = sum((run(seed).census for seed in range(40)), start=run(40).census)

    assert min(census["stop"], census["stopping"], census["leave"], census["quit"]) > 0
