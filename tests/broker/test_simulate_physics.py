"""Simulated devices: how company slows jobs, when memory runs out, that time is exact."""

from random import Random

import pytest

from broker.simulate.clock import Clock
from broker.simulate.gpu import Gpu, Process
from broker.simulate.jobs import GIB, SimJob, Step, Stream
from broker.simulate.physics import LAWS, Law

RECENT = LAWS["recent"]


def a_sim_job(
    number: int = 0,
    *,
    solo_s: float = 100.0,
    gib: float = 4.0,
    u: float = 0.5,
    w: float = 0.2,
    arrival_s: float = 0.0,
    late: float = 0.0,
) -> SimJob:
    steps: tuple[Step, ...] = (Step(0.0, int(gib * GIB)),)
    if late:
        steps = (Step(0.0, int(gib * GIB / 2)), Step(late, int(gib * GIB)))
    return SimJob(number, "fit", {}, arrival_s, solo_s, steps, u, w)


def a_process(job: SimJob, lease_gib: float = 4.0) -> Process:
    return Process(job, f"{job.number:032x}", 1, int(lease_gib * GIB))


def live(gpu: Gpu, *processes: Process) -> dict[str, float]:
    """Start the processes at once, and give when each of them has ended."""
    ends: dict[str, float] = {}
    for process in processes:
        gpu.add(process, 0.0)
    while coming := gpu.next_event():
        now, process = coming
        assert gpu.step(process, now) == 0
        if process.ended:
            gpu.remove(process, now)
            ends[process.job_id] = now
    return ends


def test_a_job_alone_runs_at_full_speed() -> None:
    assert RECENT.speeds([(0.95, 0.9)]) == [1.0]


def test_company_slows_by_the_law_that_was_fitted() -> None:
    first, second = RECENT.speeds([(0.5, 0.2), (0.4, 0.3)])

    assert first == second == pytest.approx(1 / (1 + 0.36 * 0.5 * 0.4 + 0.44 * 0.2 * 0.3))


def test_busy_jobs_together_get_no_more_than_the_ceiling() -> None:
    speeds = RECENT.speeds([(0.9, 0.0)] * 4)

    assert sum(0.9 * speed for speed in speeds) == pytest.approx(RECENT.ceiling)


def test_typical_pairs_gain_on_recent_devices_and_lose_on_losing_ones() -> None:
    typical = [(0.45, 0.25), (0.5, 0.3)]

    assert sum(LAWS["recent"].speeds(typical)) > 1.6
    assert 1.0 < sum(LAWS["hostile"].speeds(typical)) < sum(LAWS["recent"].speeds(typical))
    assert sum(LAWS["losing"].speeds(typical)) < 0.95


def test_two_equal_jobs_end_together_and_later_than_alone() -> None:
    alone = live(Gpu(24 * GIB, RECENT), a_process(a_sim_job(1)))
    both = live(Gpu(24 * GIB, RECENT), a_process(a_sim_job(1)), a_process(a_sim_job(2)))

    assert alone == {f"{1:032x}": 100.0}
    speed = RECENT.speeds([(0.5, 0.2)] * 2)[0]
    assert list(both.values()) == pytest.approx([100.0 / speed] * 2)


def test_who_stays_behind_goes_on_at_full_speed() -> None:
    halving = Law(a=4.0, b=0.0, ceiling=9.0)  # u = 0.5: speed 1 / (1 + 4 · 0.25) = 0.5

    ends = live(
        Gpu(24 * GIB, halving),
        a_process(a_sim_job(1, solo_s=100)),
        a_process(a_sim_job(2, solo_s=30)),
    )

    assert ends[f"{2:032x}"] == pytest.approx(60.0)
    assert ends[f"{1:032x}"] == pytest.approx(60.0 + 70.0)


def test_the_process_that_allocates_when_the_device_is_full_is_told_what_it_lacks() -> None:
    gpu = Gpu(10 * GIB, RECENT)
    first, second = a_process(a_sim_job(1, gib=6)), a_process(a_sim_job(2, gib=6))
    for process in (first, second):
        gpu.add(process, 0.0)

    assert gpu.step(first, 0.0) == 0
    assert gpu.step(second, 0.0) == 6 * GIB
    assert gpu.used_bytes == 6 * GIB


def test_strangers_leave_less() -> None:
    gpu = Gpu(10 * GIB, RECENT, foreign_bytes=7 * GIB)
    process = a_process(a_sim_job(gib=4))
    gpu.add(process, 0.0)

    assert gpu.step(process, 0.0) == 4 * GIB


def test_memory_over_time_counts_each_step_for_as_long_as_it_lasts() -> None:
    job = a_sim_job(gib=8, solo_s=100, late=0.75)

    assert job.byte_seconds == pytest.approx(75 * 4 * GIB + 25 * 8 * GIB)
    assert job.peak_bytes == 8 * GIB


def test_a_stream_at_three_times_the_load_arrives_in_a_third_of_the_time_its_work_takes() -> (
    None
):
    jobs = tuple(a_sim_job(n, arrival_s=50 + 7 * n, gib=12) for n in range(20))
    stream = Stream("x", jobs, devices=2, device_bytes=24 * GIB, law=RECENT).at_load(3.0)

    assert stream.work_s == pytest.approx(20 * 100 / 2 / 2)  # half a device each
    assert stream.jobs[0].arrival_s == 0.0
    assert stream.jobs[-1].arrival_s == pytest.approx(stream.work_s / 3)
    assert stream.bound_s == pytest.approx(max(stream.work_s, stream.work_s / 3 + 100))


def test_what_is_due_at_the_same_time_happens_in_the_order_given() -> None:
    clock, seen = Clock(), list[int]()
    order = [3, 1, 2]
    Random(1).shuffle(order)
    for number in order:
        clock.at(5.0, lambda n=number: seen.append(n))  # type: ignore[misc]
    clock.at(1.0, lambda: seen.append(0))

    while clock.advance():
        pass

    assert seen == [0, *order]
    assert clock.now == 5.0
