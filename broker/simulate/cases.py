"""One case: which jobs arrive where, under which policy. The same case, the same end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from ..cells import Cell, CellId
from . import traces, workloads
from .ablations import without
from .engine import Engine
from .jobs import Stream
from .metrics import Figures, best_of, figures_of
from .physics import LAWS, Law
from .policies import BY_NAME, COLD
from .story import Story
from .workloads import Seeds

_TraceReader = Callable[[Path, Seeds, int, int, Law], Stream]
_Maker = Callable[[Seeds, int, int, Law], Stream]

SYNTHETIC: Final[Mapping[str, _Maker]] = {
    "sweep": workloads.sweep,
    "adversary": workloads.adversary,
}
TRACED: Final[Mapping[str, _TraceReader]] = {"philly": traces.philly, "openb": traces.openb}
WORKLOADS: Final = (*SYNTHETIC, *TRACED)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything about a run but its policy and its load."""

    workload: str
    seed: int
    jobs: int
    devices: int
    law: str = "recent"
    foreign: bool = False
    trace: Path | None = None
    ablated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A run; `extra_devices` are there without changing what arrives when."""

    scene: Scene
    policy: str
    load: float
    extra_devices: int = 0


Results = dict[Case, Figures]

# Jobs and devices of each workload where nothing else is asked for.
SIZES: Final[Mapping[str, tuple[int, int]]] = {
    "sweep": (1200, 8),
    "philly": (1000, 8),
    "openb": (1500, 16),
    "adversary": (500, 8),
}
# Profiles are warm from an earlier run with other arrivals; it can be a busy one.
EARLIER_LOAD: Final = 3.0


def stream_of(scene: Scene, load: float, order: int = 0) -> Stream:
    """The jobs of a scene; another `order` gives other runs of the same types."""
    seeds, law = Seeds(scene.seed, order), LAWS[scene.law]
    if scene.workload in SYNTHETIC:
        stream = SYNTHETIC[scene.workload](seeds, scene.jobs, scene.devices, law)
    else:
        assert scene.trace is not None, f"{scene.workload} needs a trace"
        read = TRACED[scene.workload]
        stream = read(scene.trace, seeds, scene.jobs, scene.devices, law)
    return replace(stream.at_load(load), foreign=scene.foreign)


def play(case: Case) -> tuple[Story, Figures]:
    """Run one case to its end."""
    stream = stream_of(case.scene, case.load)
    stream = replace(stream, devices=stream.devices + case.extra_devices)
    policy = without(BY_NAME[case.policy], case.scene.ablated)
    tries = [policy.believe(stream)]
    if policy.warm:
        for cell_id, cell in _learned(case.scene):
            tries[0].restore(cell_id, replace(cell))  # the run will change it
    if policy.or_else is not None:
        tries.append(policy.or_else(stream))
    stories = [Engine(stream, policy, profiles, _rng(case)).run() for profiles in tries]
    return stories[0], best_of([figures_of(story, policy) for story in stories])


@cache
def _learned(scene: Scene) -> tuple[tuple[CellId, Cell], ...]:
    """What a broker has learned from an earlier run of such jobs."""
    stream = stream_of(scene, EARLIER_LOAD, order=1)
    policy = without(COLD, scene.ablated)
    profiles = policy.believe(stream)
    Engine(stream, policy, profiles, Random(scene.seed)).run()
    return tuple(profiles)


def _rng(case: Case) -> Random:
    return Random(f"{case.scene.seed} {case.load}")
