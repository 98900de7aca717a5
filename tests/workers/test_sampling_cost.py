"""R55: what looking at a device costs, with a thousand other processes on the machine."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from grn_zmq.units import MIB
from tests.builders import a_run
from tests.nvml.asking import JobProcess
from tests.nvml.driver import LIBRARY, FakeDriver
from tests.waiting import until
from tests.workers.acting import a_worker, assign
from workers.devices.device import Device, Tree
from workers.devices.host import HostDevice
from workers.devices.nvml import NvmlDevice

pytestmark = pytest.mark.e2e

CROWD = 1000
LOOKS = 200


@pytest.fixture(scope="module")
def crowd() -> Iterator[None]:
    """A thousand processes that do nothing."""
    script = f"for i in $(seq {CROWD}); do sleep 600 & done; echo; wait"
    shell = subprocess.Popen(
        ["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    yield
    os.killpg(shell.pid, signal.SIGKILL)
    shell.communicate()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver that is plugged into this very process."""
    driver = FakeDriver(tmp_path, [1000])
    monkeypatch.setenv("FAKE_NVML_DIR", driver.environment()["FAKE_NVML_DIR"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(tmp_path / "lib" / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return driver


def cost_s(device: Device, tree: Tree) -> float:
    """What one look takes of a core."""
    before = time.thread_time()
    for _ in range(LOOKS):
        assert device.sample({"job": tree}).seen == {"job"}
    return (time.thread_time() - before) / LOOKS


@pytest.mark.parametrize("kind", ["nvml", "host"])
def test_r55_measuring_a_job_takes_less_than_a_fiftieth_of_a_core(
    kind: str, driver: FakeDriver, crowd: None
) -> None:
    until(lambda: len(os.listdir("/proc")) > CROWD)
    core = a_worker()
    assign(core, a_run(1, young=True))
    device: Device = NvmlDevice(driver.uuid(0))
    if kind == "host":
        device = HostDevice(0, count=1, total_bytes=1000 * MIB, sum_bytes=1000 * MIB)
    with JobProcess(driver) as job:
        job.alloc(100)

        cost = cost_s(device, Tree(job.pid, job.pid, counts_root=True))

    print(f"{kind}: a look costs {cost * 1e6:.0f} µs")
    assert cost / core.sample_s(0.0, cost) < 0.02
