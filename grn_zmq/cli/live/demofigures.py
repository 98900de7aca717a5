"""What `grn demo` tells in the end: computed from how its jobs ended, and from nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ...units import format_bytes
from ..common import counted

_TITLE: Final = 32


@dataclass(frozen=True, slots=True)
class Ran:
    """One job that has succeeded; began and ended by its own word, the rest by the broker's.

    Its times are seconds since the first clock tick of the machine: good for differences.
    """

    kind: str
    device: str
    predicted_bytes: int
    peak_bytes: int
    wait_s: float
    began_s: float
    ended_s: float

    @property
    def run_s(self) -> float:
        """How long it ran, without what its process took to start."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class Round:
    """All jobs once, in the order in which they were submitted."""

    title: str
    took_s: float
    ran: Sequence[Ran]

    def at_once(self, device: str) -> int:
        """The most jobs that ran on a device at the same moment."""
        here = [one for one in self.ran if one.device == device]
        return max((_running(here, one.began_s) for one in here), default=0)

    def one_per_device_s(self, devices: int) -> float:
        """How long the same runs take if each device has one job at a time.

        Each job goes to the device that is free first; starting a job takes no time.
        """
        free_at = [0.0] * devices
        for one in self.ran:
            free_at[free_at.index(min(free_at))] += one.run_s
        return max(free_at)


def _running(ran: Iterable[Ran], at_s: float) -> int:
    return sum(one.began_s <= at_s < one.ended_s for one in ran)


def progress(ran: Ran) -> str:
    """A line about one job that has ended."""
    before = format_bytes(ran.predicted_bytes) if ran.predicted_bytes else "not known"
    return (
        f"  {ran.device}  {ran.kind:<7} predicted {before:>9}, used "
        f"{format_bytes(ran.peak_bytes):>8}; waited {ran.wait_s:4.1f} s, ran {ran.run_s:3.1f} s"
    )


def summary(rounds: Sequence[Round], devices: Sequence[str]) -> list[str]:
    """The table at the end, and what it comes to."""
    here = "  ".join(devices)
    lines = [
        f"{'':{_TITLE}}{'took':>8}  {'most at once':<{len(here)}}  one job per device",
        f"{'':{_TITLE}}{'':8}  {here}  would take",
    ]
    for one in rounds:
        counts = "  ".join(f"{one.at_once(device):>{len(device)}}" for device in devices)
        alone_s = one.one_per_device_s(len(devices))
        lines.append(f"{one.title:{_TITLE}}{one.took_s:6.1f} s  {counts}  {alone_s:8.1f} s")
    return [*lines, "", _conclusion(rounds[-1], len(devices))]


def _conclusion(last: Round, devices: int) -> str:
    alone_s = last.one_per_device_s(devices)
    return (
        f"All needs known, {counted(len(last.ran), 'job')} took {last.took_s:.1f} s; one per "
        f"device takes {alone_s / last.took_s:.1f} times as long."
    )


def facts(rounds: Sequence[Round], devices: Sequence[str]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "devices": list(devices),
        "rounds": [
            {
                "title": one.title,
                "took_s": one.took_s,
                "one_per_device_s": one.one_per_device_s(len(devices)),
                "most_at_once": {device: one.at_once(device) for device in devices},
                "jobs": [_job_facts(ran) for ran in one.ran],
            }
            for one in rounds
        ],
    }


def _job_facts(ran: Ran) -> dict[str, Any]:
    facts = {**asdict(ran), "run_s": ran.run_s}
    del facts["began_s"], facts["ended_s"]  # of a clock that nobody else has
    return facts
