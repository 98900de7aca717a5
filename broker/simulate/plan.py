"""Which cases a command asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from grn_zmq.cli.common import counted

from .cases import SIZES, TRACED, Case, Scene, stream_of
from .policies import BY_NAME

LOADS: Final = (0.7, 1.2, 3.0)
ALL_SEEDS: Final = 10
# Without any option: enough to see the point within seconds.
SMALL_JOBS: Final = 400
SMALL_DEVICES: Final = 4
SMALL_LOADS: Final = (3.0,)


class BadPlan(Exception):
    """What was asked for cannot be done; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for; empty or None where it says nothing."""

    workloads: Sequence[str] = ()
    policies: Sequence[str] = ()
    loads: Sequence[float] = ()
    seeds: int | None = None
    first_seed: int = 1
    jobs: int | None = None
    devices: int | None = None
    law: str = "recent"
    foreign: bool = False
    traces: Mapping[str, Path] | None = None
    ablated: Sequence[str] = ()
    everything: bool = False


def with_traces(asked: Asked, trace: Path | None) -> Asked:
    """Say which workload each trace is for; one that nobody would read is refused.

    Raises:
        BadPlan: It cannot be told what a trace is for.
    """
    traces = dict(asked.traces or {})
    if trace is not None:
        lacking = [name for name in asked.workloads if name in TRACED and name not in traces]
        if len(lacking) != 1:
            kinds = " or ".join(f"--{name}" for name in TRACED)
            raise BadPlan(f"which kind of trace is {trace}? Write {kinds} instead of --trace")
        traces[lacking[0]] = trace
    names = asked.workloads or ([] if asked.everything else list(traces))
    unread = [name for name in traces if names and name not in names]
    if unread:
        raise BadPlan(f"--{unread[0]} is given, but --workload {unread[0]} is not")
    return replace(asked, workloads=names, traces=traces)


def cases_of(asked: Asked) -> list[Case]:
    """Every case, those of one scene and policy next to each other."""
    loads = asked.loads or (LOADS if asked.everything else SMALL_LOADS)
    return [
        Case(scene, policy, load)
        for scene in scenes_of(asked)
        for policy in asked.policies or BY_NAME
        for load in loads
    ]


def scenes_of(asked: Asked) -> list[Scene]:
    traces = asked.traces or {}
    names = asked.workloads or (_every(traces) if asked.everything else ["sweep"])
    for name in names:
        if name in TRACED and name not in traces:
            raise BadPlan(f"{name} is read from a trace: give its path with --{name} FILE")
    seeds = asked.seeds or (ALL_SEEDS if asked.everything else 1)
    return [
        _scene(asked, name, seed)
        for seed in range(asked.first_seed, asked.first_seed + seeds)
        for name in names
    ]


def _every(traces: Mapping[str, Path]) -> list[str]:
    """The table of the whole evaluation: the sweep, and each trace that was given."""
    missing = [f"--{name} FILE" for name in TRACED if name not in traces]
    if missing:
        raise BadPlan(f"--all needs the public traces: {' '.join(missing)}")
    return ["sweep", *TRACED]


def _scene(asked: Asked, name: str, seed: int) -> Scene:
    jobs, devices = SIZES[name]
    if name == "sweep" and not asked.everything and not asked.workloads:
        jobs, devices = SMALL_JOBS, SMALL_DEVICES
    return Scene(
        workload=name,
        seed=seed,
        jobs=asked.jobs or jobs,
        devices=asked.devices or devices,
        law=asked.law,
        foreign=asked.foreign,
        trace=(asked.traces or {}).get(name),
        ablated=tuple(asked.ablated),
    )


def notes_of(cases: Sequence[Case]) -> list[str]:
    """What readers of the figures have to know: what was left out, what is unusual."""
    notes: dict[str, None] = {}
    for scene in {case.scene.workload: case.scene for case in cases}.values():
        devices = counted(scene.devices, "device")
        size = f"{scene.workload}: {counted(scene.jobs, 'job')}, {devices}"
        stream = stream_of(scene, 1.0)
        notes[f"{size} of {stream.device_bytes >> 30} GiB, {scene.law} GPU"] = None
        notes.update(dict.fromkeys(stream.notes))
        if scene.foreign:
            notes["a stranger takes and leaves memory of every device"] = None
        for part in scene.ablated:
            notes[f"ours without {part}"] = None
    return list(notes)
