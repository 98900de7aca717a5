"""Jobs that want more than there is: F38 (processes), F39 (memory), F40 (device memory)."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e.watched import profile_of
from tests.faults import misdeeds
from tests.faults.direct import outcome_of
from tests.faults.groups import inside, memory_group
from tests.faults.harness import System
from tests.faults.misdeeds import MIB
from tests.nvml.driver import FakeDriver

pytestmark = pytest.mark.e2e

MOST_PROCESSES = 100
GPU_MIB = 1000
RETRIES = 2


def test_f38_a_fork_bomb_fails_its_job_and_nobody_else() -> None:
    with System() as system:
        workers = system.worker_pids()
        bomb = system.direct.submit(misdeeds.multiply, MOST_PROCESSES, outcome="failed")

        error = system.direct.end(bomb)

        assert isinstance(error, BlockingIOError)
        assert system.direct.end(system.direct.submit(misdeeds.give, 1, value=1)) == 1
        assert system.worker_pids() == workers
        system.settle()
        system.assert_clean()


def test_f39_a_job_that_the_kernel_kills_for_lack_of_memory_ran_out_of_it() -> None:
    with memory_group(256 * MIB) as group, ExitStack() as stack:
        with inside(group):
            system = stack.enter_context(System("--devices", "host:1x200MiB"))
        workers = system.worker_pids()
        greedy = system.direct.submit(misdeeds.take, 1024, outcome="oom", type="greedy")

        error = system.direct.end(greedy)

        assert isinstance(error, grn.JobOutOfMemory)
        assert outcome_of(greedy).outcome == "oom"
        assert profile_of("greedy").predicted_bytes > 50 * MIB
        assert system.worker_pids() == workers
        assert system.direct.end(system.direct.submit(misdeeds.give, 1, value=1)) == 1
        system.settle()
        system.assert_clean()


def test_f40_a_job_larger_than_its_gpu_is_tried_a_few_times_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(tmp_path / "nvml", [GPU_MIB])
    for name, value in driver.environment().items():
        monkeypatch.setenv(name, value)
    with System("--devices", "nvml", "--max-jobs", "2") as system:
        (worker,) = system.worker_pids()
        greedy = system.direct.submit(
            misdeeds.take_on_gpu, GPU_MIB * 2, outcome="oom", type="greedy", oom_retries=RETRIES
        )

        error = system.direct.end(greedy)

        assert isinstance(error, MemoryError | RuntimeError)
        assert outcome_of(greedy).outcome == "oom"
        assert 1 <= system.checker().starts()[greedy.job_id] <= 1 + RETRIES
        assert profile_of("greedy").predicted_bytes > 0
        assert system.direct.end(system.direct.submit(misdeeds.give, 1, value=1)) == 1
        assert system.worker_pids() == [worker]
        system.settle()
        system.assert_clean()
