"""Policies on simulated devices: one small stream, the real core, every job ends."""

from dataclasses import asdict, replace
from functools import cache
from random import Random

import pytest

from broker.simulate.ablations import ABLATIONS
from broker.simulate.cases import Case, Scene, play, stream_of
from broker.simulate.engine import Engine
from broker.simulate.jobs import GIB, SimJob, Step, Stream
from broker.simulate.metrics import Figures, figures_of
from broker.simulate.physics import LAWS
from broker.simulate.policies import BY_NAME, COLD, EXCLUSIVE, Policy
from broker.simulate.story import Story
from broker.simulate.summary import as_facts, rows_of

SMALL = Scene("sweep", seed=1, jobs=240, devices=4)


@cache
def figures(policy: str, load: float = 3.0) -> Figures:
    return play(Case(SMALL, policy, load))[1]


def jobs_of(*gib: float, every_s: float = 0.0, job_type: str = "fit") -> Stream:
    jobs = tuple(
        SimJob(n, job_type, {}, n * every_s, 600.0, (Step(0.0, int(one * GIB)),), 0.3, 0.1)
        for n, one in enumerate(gib)
    )
    return Stream("made", jobs, devices=1, device_bytes=24 * GIB, law=LAWS["recent"])


def run(stream: Stream, policy: Policy) -> Story:
    return Engine(stream, policy, policy.believe(stream), Random(1)).run()


def test_a_small_sweep_is_packed_without_a_failure_and_much_faster_than_one_by_one() -> None:
    ours, exclusive, oracle = figures("cold"), figures("exclusive"), figures("oracle")

    assert ours.jobs == 240
    assert ours.dropped == ours.failures == 0
    assert ours.restarted <= 0.02
    assert exclusive.makespan_s > 2.0 * ours.makespan_s
    assert ours.makespan_s < 1.35 * oracle.makespan_s
    assert ours.makespan_s >= ours.bound_s


@pytest.mark.parametrize("policy", list(BY_NAME))
def test_no_schedule_beats_the_bound_unless_it_drops_jobs(policy: str) -> None:
    found = figures(policy)

    assert found.dropped or found.makespan_s >= found.bound_s
    assert found.events > 240


def test_the_same_case_has_the_same_end() -> None:
    case = Case(replace(SMALL, jobs=60, devices=2), "cold", 3.0)

    assert asdict(play(case)[1]) == asdict(play(case)[1])
    assert play(case)[1] != play(replace(case, scene=replace(case.scene, seed=2)))[1]


def test_what_was_learned_before_saves_the_measuring_runs() -> None:
    cold, _ = play(Case(SMALL, "cold", 3.0))
    warm, _ = play(Case(SMALL, "warm", 3.0))

    assert sum(one.measuring for one in cold.promises) >= 12
    assert sum(one.measuring for one in warm.promises) == 0


def test_the_oracle_promises_what_is_needed_and_nothing_runs_out_of_memory() -> None:
    story, found = play(Case(SMALL, "oracle", 3.0))

    assert found.kills == 0
    for one in story.promises:
        assert one.peak_bytes <= one.lease_bytes <= max(1.03 * one.peak_bytes, 0.25 * GIB)


def test_one_job_per_device_is_one_job_per_device() -> None:
    story = run(jobs_of(1, 1, 1), EXCLUSIVE)

    assert [life.ended_s for life in story.lives] == pytest.approx([600, 1200, 1800])


def test_declared_fractions_are_of_the_largest_job_of_the_type() -> None:
    story = run(jobs_of(3, 1, 1, 1, 1), BY_NAME["fractions"])

    # 3 GiB · 1.25 is a quarter of 24 GiB: four at once, then the fifth.
    assert [one.lease_bytes // GIB for one in story.promises] == [5] * 5
    assert story.lives[-1].first_start_s > 600


def test_the_first_peak_believed_for_ever_fails_users_who_then_try_again() -> None:
    stream = jobs_of(*[2.0, *[9.0] * 6])
    story = run(stream, BY_NAME["sticky"])
    found = figures_of(story, BY_NAME["sticky"])

    assert found.kills == found.failures > 0
    assert max(life.submissions for life in story.lives) > 1


def test_the_largest_seen_repairs_by_a_whole_device() -> None:
    stream = jobs_of(*[2.0] * 3, *[9.0] * 6, every_s=900)
    stream = replace(
        stream,
        jobs=tuple(replace(one, arrival_s=min(one.arrival_s, 2700)) for one in stream.jobs),
    )
    story = run(stream, BY_NAME["max-seen"])
    found = figures_of(story, BY_NAME["max-seen"])

    assert [one.lease_bytes // GIB for one in story.promises[:3]] == [23] * 3
    assert found.kills > 0
    assert found.failures == found.dropped == 0


def test_lost_progress_and_the_restart_are_counted_as_waste() -> None:
    """Two jobs that both grow late, beyond what a settled first run vouched for."""
    job = SimJob(0, "fit", {}, 0.0, 1000.0, (Step(0.0, 8 * GIB), Step(0.8, 14 * GIB)), 0.2, 0.1)
    jobs = tuple(replace(job, number=n, arrival_s=float(n)) for n in range(3))
    stream = replace(jobs_of(1), jobs=jobs)
    story = run(stream, COLD)
    found = figures_of(story, COLD)

    assert found.kills >= 1
    assert found.wasted * 3000 >= 0.8 * 1000 + 20
    assert found.failures == 0
    assert all(life.succeeded for life in story.lives)


def test_a_policy_that_never_finishes_is_reported_as_dropping_jobs() -> None:
    never = replace(COLD, max_jobs=1, oom_retries=0)
    stream = jobs_of(1.0, 30.0, 1.0)  # the second can never fit
    found = figures_of(run(stream, never), never)

    assert found.dropped == 1
    assert found.jobs == 3


def test_strangers_cost_memory_but_no_job() -> None:
    quiet = jobs_of(*[5.0] * 40)
    found, alone = (
        figures_of(run(stream, COLD), COLD) for stream in (replace(quiet, foreign=True), quiet)
    )

    assert found.dropped == found.failures == 0
    assert found.makespan_s > 1.1 * alone.makespan_s


def test_no_device_ever_holds_more_than_it_has() -> None:
    story, _ = play(Case(SMALL, "cold", 3.0))

    assert len(story.memory) == SMALL.devices
    for curve in story.memory:
        assert max(used for _, used in curve) <= story.stream.device_bytes
        assert curve[-1][1] == 0
        assert [at for at, _ in curve] == sorted(at for at, _ in curve)


def test_two_more_devices_are_asked_about_with_the_same_arrivals() -> None:
    case = Case(SMALL, "cold", 3.0)
    now, then = play(case), play(replace(case, extra_devices=2))

    assert [life.job for life in now[0].lives] == [life.job for life in then[0].lives]
    assert then[1].makespan_s < 0.85 * now[1].makespan_s
    assert then[1].mean_wait_s < now[1].mean_wait_s


def test_arguments_are_worth_more_than_anything_else() -> None:
    case = Case(replace(SMALL, ablated=("features",)), "cold", 3.0)

    assert play(case)[1].makespan_s > 1.3 * figures("cold").makespan_s
    assert set(ABLATIONS) >= {"features", "headroom", "settling", "durations"}


def test_rows_compare_each_seed_with_its_own_oracle_and_dropped_jobs_are_told() -> None:
    cases = [Case(SMALL, policy, 3.0) for policy in ("oracle", "cold", "exclusive", "sticky")]
    results = {case: figures(case.policy) for case in cases}
    rows = {row.policy: row for row in rows_of(results)}

    ours = rows["cold"]
    assert ours.to_oracle is not None
    assert ours.to_oracle.median == pytest.approx(
        figures("cold").makespan_s / figures("oracle").makespan_s
    )
    assert ours.gain is not None
    assert ours.gain.worst == pytest.approx(
        figures("exclusive").makespan_s / figures("cold").makespan_s
    )
    facts = as_facts(results, rows.values(), ["a note"])
    assert [one["policy"] for one in facts["runs"]] == list(rows)
    assert facts["runs"][3]["failures"] == rows["sticky"].failures > 0


def test_load_is_what_arrives_over_what_devices_can_do() -> None:
    slow, fast = stream_of(SMALL, 0.7), stream_of(SMALL, 3.0)

    assert slow.work_s == pytest.approx(fast.work_s)
    assert slow.jobs[-1].arrival_s == pytest.approx(slow.work_s / 0.7)
    assert fast.jobs[-1].arrival_s == pytest.approx(fast.work_s / 3.0)
