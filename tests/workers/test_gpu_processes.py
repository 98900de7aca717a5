"""The processes on a GPU, ours and strangers', as a worker reports them."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.records import DeviceProcess
from grn_zmq.units import MIB
from tests.nvml.asking import JobProcess
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE
from tests.workers.stage import Bench, read_when_there

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def bench(gpus: FakeDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A worker of the second of two stand-in GPUs."""
    gpus.set(1, "temperature", 61)
    bench = Bench(tmp_path_factory.mktemp("orders"), f"nvml:1/{gpus.uuid(1)}")
    yield bench
    bench.close()


def hold(path: str, mib: int) -> None:
    from tests.nvml import cuda

    cuda.alloc(mib)
    Path(path).write_text(str(os.getpid()))
    while not os.path.exists(f"{path}.end"):
        time.sleep(0.01)


def report_of(bench: Bench, *pids: int) -> wire.Report:
    """The next report in which exactly these processes are."""
    deadline = time.monotonic() + 10 * PATIENCE
    while time.monotonic() < deadline:
        report = bench.broker.next(wire.Report)
        if {one.pid for one in report.processes} == set(pids):
            return report
    raise AssertionError(f"no report of {pids}: {report}")


def test_processes_of_jobs_and_strangers_are_told_apart(
    bench: Bench, gpus: FakeDriver, tmp_path: Path
) -> None:
    with JobProcess(gpus) as stranger:
        stranger.alloc(300, 1)
        job_id = bench.give(hold, str(tmp_path / "pid"), 100)
        pid = int(read_when_there(tmp_path / "pid"))

        report = report_of(bench, stranger.pid, pid)

        assert report.processes == (
            DeviceProcess(stranger.pid, 300 * MIB, ""),
            DeviceProcess(pid, 100 * MIB, job_id),
        )
        assert report.temperature_c == 61
        assert [use.pid for use in report.uses] == [pid]
        (tmp_path / "pid.end").touch()
        bench.broker.recorded(bench.broker.result())
    assert report_of(bench).uses == ()


def test_g18_a_command_is_given_the_gpu_of_its_lease(
    bench: Bench, gpus: FakeDriver, tmp_path: Path
) -> None:
    words = f"echo {{gpu}} {{device}} {{uuid}} $CUDA_VISIBLE_DEVICES > {tmp_path}/said"

    result = bench.run_command("sh", "-c", words, variables={"CUDA_VISIBLE_DEVICES": "7"})

    assert result.exit_status == 0
    uuid = gpus.uuid(1)
    assert (tmp_path / "said").read_text() == f"1 nvml:1 {uuid} {uuid}\n"
