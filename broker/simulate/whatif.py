"""Would more GPUs help? The same jobs, arriving at the same times, on other machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import Final

from grn_zmq.cli.common import counted

from .cases import Case, Results
from .metrics import Figures
from .plan import BadPlan
from .policies import BY_NAME
from .table import duration

# Looked at closely: with profiles if it may be, as after the first day.
_RANKS: Final = {"warm": 0, "cold": 1}


@dataclass(frozen=True, slots=True)
class Answer:
    """One workload at one load: each figure as it is now, and as it would be then.

    Times are the median over the seeds, `dropped` the jobs of all seeds that never ended.
    """

    workload: str
    load: float
    policy: str
    seeds: int
    devices: tuple[int, int]
    makespan_s: tuple[float, float]
    mean_wait_s: tuple[float, float]
    mean_jct_s: tuple[float, float]
    dropped: tuple[int, int]
    jobs: int

    def lines(self) -> list[str]:
        """The answer for people."""
        seeds = f", median of {self.seeds} seeds" if self.seeds > 1 else ""
        title = f"{self.workload}, load {self.load:g}, {BY_NAME[self.policy].title}{seeds}"
        return [title, *(self._line(at) for at in (0, 1))]

    def _line(self, at: int) -> str:
        dropped = self.dropped[at]
        end = f"{dropped:,} of {counted(self.jobs, 'job')} NEVER ENDED, the others were"
        return (
            f"{counted(self.devices[at], 'device'):>11}: {end if dropped else 'all'} done "
            f"after {duration(self.makespan_s[at])}, "
            f"a job waits {duration(self.mean_wait_s[at])} on average "
            f"and is done {duration(self.mean_jct_s[at])} after it came"
        )


def first_of_ours(cases: Sequence[Case]) -> Case:
    return min(cases, key=lambda case: (_RANKS.get(case.policy, 2), case.scene.seed))


def cases_to_compare(cases: Sequence[Case], extra: int) -> list[Case]:
    """Of one policy every case, as it is and with so many devices more.

    Raises:
        BadPlan: No device would be left.
    """
    policy = first_of_ours(cases).policy
    now = [case for case in cases if case.policy == policy]
    fewest = min(case.scene.devices for case in now)
    if fewest + extra < 1:
        raise BadPlan(
            f"there {'is' if fewest == 1 else 'are'} only {counted(fewest, 'device')}"
        )
    return [*now, *(replace(case, extra_devices=extra) for case in now)]


def answers_of(results: Results, extra: int) -> list[Answer]:
    now = sorted(
        (case for case in results if not case.extra_devices),
        key=lambda case: (case.scene.workload, case.load, case.scene.seed),
    )
    groups = groupby(now, lambda case: (case.scene.workload, case.load))
    return [_answer(list(group), results, extra) for _, group in groups]


def _answer(cases: list[Case], results: Results, extra: int) -> Answer:
    first = cases[0]
    now = [results[case] for case in cases]
    then = [results[replace(case, extra_devices=extra)] for case in cases]
    return Answer(
        workload=first.scene.workload,
        load=first.load,
        policy=first.policy,
        seeds=len(cases),
        devices=(first.scene.devices, first.scene.devices + extra),
        makespan_s=(_median(now, "makespan_s"), _median(then, "makespan_s")),
        mean_wait_s=(_median(now, "mean_wait_s"), _median(then, "mean_wait_s")),
        mean_jct_s=(_median(now, "mean_jct_s"), _median(then, "mean_jct_s")),
        dropped=(sum(one.dropped for one in now), sum(one.dropped for one in then)),
        jobs=sum(one.jobs for one in now),
    )


def _median(figures: Sequence[Figures], name: str) -> float:
    values: list[float] = [getattr(one, name) for one in figures]
    return median(values)
