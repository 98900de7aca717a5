"""P28: jobs whose framework holds itself to a share of the card."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import needs
from tests.e2e import scene as scenes
from tests.e2e.scene import LONG_S, MIB, Machine, Scene, a_machine, check_leases
from tests.e2e.watched import profile_of
from tests.nvml.driver import TORCH_STUB

pytestmark = pytest.mark.e2e

GPU_MIB = 10_000
SHARE = 0.1
SHARING = 9
RUNS = 3


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """One GPU, and a torch that uses it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TORCH_STUB))
        patch.setattr(scenes, "MAX_JOBS", 2 * SHARING)
        with a_machine("nvml", home, GPU_MIB) as machine:
            yield machine


def test_p28_nine_jobs_that_limit_themselves_to_a_tenth_share_a_card(
    machine: Machine, scene: Scene
) -> None:
    limited = grn.job(type="limited")(needs.limit_itself)
    for _ in range(RUNS):
        limited(scene.place, SHARE)
    learned = profile_of("limited")
    gate = scene.close_gate()

    jobs = [limited.submit(scene.place, SHARE, gate) for _ in range(SHARING)]

    scene.await_notes("holds", RUNS + SHARING, 20)
    check_leases()
    scene.open_gate()
    assert all(job.result(LONG_S) == "nvml:0" for job in jobs)
    assert 0.95 <= learned.peak_bytes / (SHARE * GPU_MIB * MIB) <= 1.05
