"""Figures of one run, from what happened in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from .policies import Policy
from .story import Life, Story

# Jobs above this share of a device find room last.
BIG_SHARE: Final = 0.7


class NothingDone(Exception):
    """Not one job of a run succeeded, so there are no figures of it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers. Times in seconds, shares from 0 to 1; None where nothing was seen.

    `failures` are ends a user has to deal with, of jobs that would fit an empty device;
    `dropped` are jobs that never succeeded: a policy that drops jobs is not fast.
    """

    jobs: int
    makespan_s: float
    bound_s: float
    mean_jct_s: float
    p95_jct_s: float
    big_p95_jct_s: float | None
    mean_wait_s: float
    kills: int
    innocent_kills: int
    restarted: float
    failures: int
    dropped: int
    wasted: float
    lease_over_peak: float | None
    under_estimated: float
    events: int


def figures_of(story: Story, policy: Policy) -> Figures:
    lives = story.lives
    done = [life for life in lives if life.succeeded]
    if not done:
        raise NothingDone(f"no job of {story.stream.name} ever succeeded: {policy.title}")
    known = [one for one in story.promises if not one.measuring]
    dropped = len(lives) - len(done)
    work_s = sum(life.job.solo_s for life in lives)
    return Figures(
        jobs=len(lives),
        makespan_s=max(life.ended_s for life in done),
        bound_s=story.stream.bound_s,
        mean_jct_s=fmean(map(_jct_s, done)),
        p95_jct_s=_p95([_jct_s(life) for life in done]),
        big_p95_jct_s=_big_p95(done, story.stream.device_bytes),
        mean_wait_s=fmean(life.first_start_s - life.job.arrival_s for life in done),
        kills=story.kills,
        innocent_kills=story.innocent_kills,
        restarted=sum(life.attempts > 1 for life in lives) / len(lives),
        failures=dropped if policy.repairs else sum(life.failures for life in lives),
        dropped=dropped,
        wasted=story.wasted_s / work_s,
        lease_over_peak=median(one.lease_bytes / one.peak_bytes for one in known)
        if known
        else None,
        under_estimated=sum(one.lease_bytes < one.peak_bytes for one in known)
        / max(1, len(known)),
        events=story.events,
    )


def best_of(tries: Sequence[Figures]) -> Figures:
    """The try that was done first, with the shortest times that any of them had."""
    first = min(tries, key=lambda one: one.makespan_s)
    big = [one.big_p95_jct_s for one in tries if one.big_p95_jct_s is not None]
    return replace(
        first,
        mean_jct_s=min(one.mean_jct_s for one in tries),
        p95_jct_s=min(one.p95_jct_s for one in tries),
        big_p95_jct_s=min(big, default=None),
        mean_wait_s=min(one.mean_wait_s for one in tries),
    )


def _jct_s(life: Life) -> float:
    return life.ended_s - life.job.arrival_s


def _big_p95(lives: Sequence[Life], device_bytes: int) -> float | None:
    big = [_jct_s(one) for one in lives if one.job.peak_bytes > BIG_SHARE * device_bytes]
    return _p95(big) if big else None


def _p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]
