"""The mix that this project is for: 48 jobs of four types on four GPUs, first unknown."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.facts import JobRow
from tests.e2e import needs
from tests.e2e.scene import LONG_S, Machine, Scene, a_machine, rows_of
from tests.e2e.watched import leases_watched
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

GPUS, GPU_MIB = 4, 16 << 10
# How many jobs of which size: one job per GPU takes 3.3 times as long as the bound.
COUNTS_BY_MIB = {1536: 20, 5120: 14, 9216: 10, 14336: 4}
SHORTEST_S, LONGEST_S = 1.0, 3.0
COLD, WARM = 2.0, 1.5


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    with a_machine("nvml", home, *[GPU_MIB] * GPUS) as machine:
        # A client that is connected, and job processes that were started once.
        grn.job(type="warm-up")(needs.climb)(str(home), 1, 0.0)
        yield machine


def some_jobs() -> list[tuple[int, float]]:
    """The sizes in MiB and seconds of the 48, in mixed order."""
    rng = random.Random(48)
    sizes = [mib for mib, count in COUNTS_BY_MIB.items() for _ in range(count)]
    rng.shuffle(sizes)
    return [(mib, rng.uniform(SHORTEST_S, LONGEST_S)) for mib in sizes]


def least_s(jobs: list[tuple[int, float]]) -> float:
    """No order and no packing can be faster than this."""
    memory_seconds = sum(mib * seconds for mib, seconds in jobs)
    return max(memory_seconds / (GPUS * GPU_MIB), max(seconds for _, seconds in jobs))


def run_all(scene: Scene) -> float:
    """Run the 48 to their ends; give how much longer than the bound that took."""
    jobs = some_jobs()
    types = {mib: grn.job(type=f"takes-{mib}")(needs.climb) for mib in COUNTS_BY_MIB}
    began = time.monotonic()
    with leases_watched() as seen:
        futures = [types[mib].submit(scene.place, mib, seconds) for mib, seconds in jobs]
        devices = [future.result(LONG_S) for future in futures]
    took_s = time.monotonic() - began

    ratio = took_s / least_s(jobs)
    print(f"{took_s:.1f} s, bound {least_s(jobs):.1f} s: {ratio:.2f} times as long")
    assert {*devices} == {f"nvml:{index}" for index in range(GPUS)}
    assert seen.samples > 20
    assert seen.wrong == []
    return ratio


def all_rows() -> list[JobRow]:
    return [row for mib in COUNTS_BY_MIB for row in rows_of(f"takes-{mib}")]


def test_48_jobs_share_four_gpus_at_first_sight_and_better_once_known(
    machine: Machine, scene: Scene
) -> None:
    cold = run_all(scene)
    warm = run_all(scene)

    assert {row.state for row in all_rows()} == {"succeeded"}
    assert len(all_rows()) == 96
    assert all(row.peak_bytes <= GPU_MIB << 20 for row in all_rows())
    assert scene.notes("oom") == []
    assert cold <= COLD * PATIENCE
    assert warm <= WARM * PATIENCE
