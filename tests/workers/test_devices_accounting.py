"""NVML's accounting mode: peaks that outlive their process."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from grn_zmq.units import MIB
from tests.nvml.asking import JobProcess
from tests.nvml.driver import LIBRARY, FakeDriver
from workers.devices.device import Tree
from workers.devices.host import HostDevice
from workers.devices.nvml import NvmlDevice

pytestmark = pytest.mark.e2e


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver with accounting mode on, plugged into this very process."""
    driver = FakeDriver(tmp_path, [1000])
    monkeypatch.setenv("FAKE_NVML_DIR", driver.environment()["FAKE_NVML_DIR"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(tmp_path / "lib" / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    driver.accounting()
    return driver


def a_tree(job: JobProcess) -> Tree:
    return Tree(job.pid, job.pid, counts_root=True)


def peak(job: JobProcess, mib: int) -> None:
    job.do(f"import cuda; cuda.alloc({mib}); cuda.free({mib}); 0")


def test_a_peak_between_two_looks_is_known_even_after_the_process_is_gone(
    driver: FakeDriver,
) -> None:
    device = NvmlDevice(driver.uuid(0))
    with JobProcess(driver) as job:
        device.sample({"job": a_tree(job)})
        peak(job, 900)

    assert device.accounted_bytes(a_tree(job)) == 900 * MIB


def test_a_child_that_was_seen_once_is_asked_about_too(driver: FakeDriver) -> None:
    device = NvmlDevice(driver.uuid(0))
    with JobProcess(driver) as job, JobProcess(driver) as child:
        child.alloc(10)
        tree = Tree(root_pid=child.pid, main_pid=job.pid, counts_root=True)
        device.sample({"job": tree})
        peak(child, 700)

        assert device.accounted_bytes(tree) == 710 * MIB


def test_a_process_that_is_used_again_does_not_have_its_old_peak(driver: FakeDriver) -> None:
    device = NvmlDevice(driver.uuid(0))
    with JobProcess(driver) as job:
        tree = a_tree(job)
        peak(job, 500)
        assert device.accounted_bytes(tree) == 500 * MIB
        device.sample({"job": tree})

        peak(job, 300)
        assert device.accounted_bytes(tree) == 0
        peak(job, 600)
        assert device.accounted_bytes(tree) == 600 * MIB


@pytest.mark.parametrize("switch_off", [FakeDriver.accounting, FakeDriver.lose])
def test_a_driver_that_keeps_no_account_tells_nothing(
    switch_off: Callable[[FakeDriver, int], None], driver: FakeDriver
) -> None:
    device = NvmlDevice(driver.uuid(0))
    with JobProcess(driver) as job:
        peak(job, 500)
        switch_off(driver, 0)

        assert device.accounted_bytes(a_tree(job)) == 0


def test_host_memory_needs_no_account() -> None:
    device = HostDevice(0, count=1, total_bytes=MIB, sum_bytes=MIB)

    assert device.accounted_bytes(Tree(1, 1)) == 0
