"""Many runs as rows: the median over the seeds, and the worst of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from .cases import Case, Results
from .metrics import Figures
from .policies import BY_NAME, EXCLUSIVE, ORACLE


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the seeds; `worst` is its largest value, of a gain its smallest."""

    median: float
    worst: float


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one workload at one load. Ratios against the same seed of the other."""

    workload: str
    load: float
    policy: str
    seeds: int
    makespan_s: Spread
    to_oracle: Spread | None
    to_bound: Spread
    gain: Spread | None
    mean_jct_s: Spread
    jct_to_oracle: Spread | None
    p95_jct_to_oracle: Spread | None
    big_to_oracle: Spread | None
    kills: Spread
    innocent_kills: Spread
    restarted: Spread
    failures: int
    dropped: int
    wasted: Spread
    lease_over_peak: float | None
    under_estimated: float

    @property
    def title(self) -> str:
        return BY_NAME[self.policy].title


def rows_of(results: Results) -> list[Row]:
    """One row per workload, load and policy, in the order in which the cases were given."""
    groups: dict[tuple[str, float, str], list[Case]] = {}
    for case in results:
        at = (case.scene.workload, case.load, case.policy)
        groups.setdefault(at, []).append(case)
    order = {name: place for place, name in enumerate(BY_NAME)}
    keys = sorted(groups, key=lambda key: (key[0], key[1], order[key[2]]))
    return [_row(groups[key], results) for key in keys]


def _row(cases: list[Case], results: Results) -> Row:
    mine = [results[case] for case in cases]
    oracle = _others(cases, results, ORACLE.name)
    exclusive = _others(cases, results, EXCLUSIVE.name)
    first = cases[0]
    return Row(
        workload=first.scene.workload,
        load=first.load,
        policy=first.policy,
        seeds=len(cases),
        makespan_s=_spread(one.makespan_s for one in mine),
        to_oracle=_ratio(mine, oracle, lambda one: one.makespan_s),
        to_bound=_spread(one.makespan_s / one.bound_s for one in mine),
        gain=_gain(exclusive, mine),
        mean_jct_s=_spread(one.mean_jct_s for one in mine),
        jct_to_oracle=_ratio(mine, oracle, lambda one: one.mean_jct_s),
        p95_jct_to_oracle=_ratio(mine, oracle, lambda one: one.p95_jct_s),
        big_to_oracle=_ratio(mine, oracle, lambda one: one.big_p95_jct_s),
        kills=_spread(one.kills for one in mine),
        innocent_kills=_spread(one.innocent_kills for one in mine),
        restarted=_spread(one.restarted for one in mine),
        failures=sum(one.failures for one in mine),
        dropped=sum(one.dropped for one in mine),
        wasted=_spread(one.wasted for one in mine),
        lease_over_peak=_median_known(one.lease_over_peak for one in mine),
        under_estimated=median(one.under_estimated for one in mine),
    )


def _others(cases: list[Case], results: Results, policy: str) -> list[Figures] | None:
    """The same runs under another policy, if it was played."""
    others = [results.get(Case(case.scene, policy, case.load)) for case in cases]
    return None if None in others else [one for one in others if one is not None]


def _spread(values: Iterable[float]) -> Spread:
    listed = list(values)
    return Spread(median(listed), max(listed))


_Pick = Callable[[Figures], float | None]


def _ratio(mine: list[Figures], others: list[Figures] | None, pick: _Pick) -> Spread | None:
    if others is None:
        return None
    pairs = [(pick(one), pick(other)) for one, other in zip(mine, others, strict=True)]
    ratios = [a / b for a, b in pairs if a is not None and b]
    return _spread(ratios) if ratios else None


def _gain(exclusive: list[Figures] | None, mine: list[Figures]) -> Spread | None:
    if exclusive is None:
        return None
    pairs = zip(exclusive, mine, strict=True)
    gains = [other.makespan_s / one.makespan_s for other, one in pairs]
    return Spread(median(gains), min(gains))


def _median_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def as_facts(results: Results, rows: Iterable[Row], notes: Iterable[str]) -> dict[str, Any]:
    """Everything as plain values, for JSON."""
    return {
        "notes": list(notes),
        "rows": [asdict(row) for row in rows],
        "runs": [
            {**_scene(case), "policy": case.policy, "load": case.load, **asdict(figures)}
            for case, figures in results.items()
        ],
    }


_SHOWN: Final = ("workload", "seed", "devices", "law", "foreign", "ablated")


def _scene(case: Case) -> Mapping[str, Any]:
    return {name: getattr(case.scene, name) for name in _SHOWN}
