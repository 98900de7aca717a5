"""Two hundred jobs at once whose memory grows for seconds: no promise exceeds a device."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import needs
from tests.e2e.scene import Machine, Scene, a_machine, rows_of
from tests.e2e.watched import leases_watched
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

GPUS, GPU_MIB = 4, 1000
JOBS = 200
# As many of them as a GPU may have at once would not fit: it is memory that holds them back.
JOB_MIB = 150
STEPS, STEP_S, JOB_S = 8, 0.25, 2.0
FIT = GPU_MIB // JOB_MIB
ALL_S = 100 * PATIENCE


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    with a_machine("nvml", home, *[GPU_MIB] * GPUS) as machine:
        yield machine


@pytest.mark.parametrize("known", [False, True])
def test_200_jobs_that_ramp_are_packed_and_none_runs_out_of_memory(
    machine: Machine, scene: Scene, known: bool
) -> None:
    job_type = f"ramp, {known=}"
    ramp = grn.job(type=job_type)(needs.climb_and_free)
    if known:
        assert ramp(scene.place, JOB_MIB, JOB_S, STEPS, STEP_S)
    before = rows_of(job_type)
    began = time.monotonic()

    with leases_watched() as seen:
        jobs = [ramp.submit(scene.place, JOB_MIB, JOB_S, STEPS, STEP_S) for _ in range(JOBS)]
        submitted_s = time.monotonic() - began
        assert all(job.result(ALL_S) for job in jobs)

    print(f"{JOBS} jobs in {time.monotonic() - began:.0f} s, {seen.most_jobs} at once")
    assert submitted_s < 1.0 * PATIENCE
    assert seen.samples > 20
    assert seen.wrong == []
    assert GPUS * (FIT - 2) <= seen.most_jobs <= GPUS * FIT
    assert scene.notes("oom") == []
    rows = rows_of(job_type)[len(before) :]
    assert {(row.state, row.attempt) for row in rows} == {("succeeded", 1)}
    assert sum(not row.predicted_bytes for row in rows) == (0 if known else 1)
