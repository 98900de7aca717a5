"""P35, S18: what a GPU says of its place and its display, and who only draws on it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from grn_zmq.units import MIB
from tests.nvml.asking import JobProcess
from tests.nvml.driver import FakeDriver
from tests.nvml.plugging import plug_in
from workers.devices.device import Tree
from workers.devices.nvml import NvmlDevice
from workers.server import facts_of

pytestmark = pytest.mark.e2e

MakeDriver = Callable[..., FakeDriver]


@pytest.fixture
def make_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeDriver:
    return lambda *sizes_mib: plug_in(monkeypatch, tmp_path, *sizes_mib)


def links_of(driver: FakeDriver, index: int) -> dict[int, int]:
    """How far other GPUs are from this one, by index."""
    indices = {driver.uuid(other): other for other in range(3)}
    links = NvmlDevice(driver.uuid(index)).info.links
    return {indices[uuid]: distance for uuid, distance in links.items()}


def test_p35_a_gpu_knows_how_far_the_others_are(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000, 1000)
    driver.set_level(0, 1, pynvml.NVML_TOPOLOGY_SYSTEM)
    driver.set_level(0, 2, pynvml.NVML_TOPOLOGY_SINGLE)

    assert links_of(driver, 0) == {1: 50, 2: 10}
    assert links_of(driver, 1) == {0: 50, 2: 30}


def test_p35_an_nvlink_is_closer_than_any_switch_if_it_is_up(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000, 1000)
    driver.set_level(0, 1, pynvml.NVML_TOPOLOGY_SYSTEM)
    driver.set_level(0, 2, pynvml.NVML_TOPOLOGY_SINGLE)
    driver.set_nvlinks(0, [-1, 1])

    assert links_of(driver, 0) == {1: 1, 2: 10}


def test_a_lost_neighbour_has_no_place_and_does_no_harm(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000, 1000)
    driver.lose(1)

    assert links_of(driver, 0) == {2: 30}


def test_s18_the_broker_is_told_which_gpu_drives_the_display(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000)
    driver.set(1, "display", 1)

    facts = [facts_of(NvmlDevice(driver.uuid(index)).info) for index in range(2)]

    assert [one.display for one in facts] == [False, True]
    assert facts[0].links == {driver.uuid(1): 30}


def test_s18_who_only_draws_is_no_process_but_its_memory_is_foreign(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    device = NvmlDevice(driver.uuid(0))
    with JobProcess(driver) as job, JobProcess(driver) as stranger:
        driver.hold(0, os.getpid(), 200, graphics=True)
        driver.hold(0, stranger.pid, 30, graphics=True)
        stranger.alloc(30)
        driver.hold(0, job.pid, 50, graphics=True)

        sample = device.sample({"job": Tree(job.pid, job.pid, counts_root=True)})

        assert sample.processes == {stranger.pid: 30 * MIB, job.pid: 50 * MIB}
        assert (sample.by_tree["job"], sample.foreign_bytes) == (50 * MIB, 260 * MIB)


def test_jobs_of_other_workers_are_not_those_of_a_caller_that_started_the_workers(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    device = NvmlDevice(driver.uuid(0))
    caller = Tree(os.getppid(), os.getppid(), counts_root=True)  # it started this process
    with JobProcess(driver) as job:
        job.alloc(100)

        sample = device.sample({"lease": caller})

        assert (sample.by_tree["lease"], sample.foreign_bytes) == (0, 100 * MIB)


def test_a_process_beside_the_workers_is_of_the_caller_that_started_both(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    device = NvmlDevice(driver.uuid(0))
    beside = subprocess.Popen(["sleep", "600"])
    try:
        driver.hold(0, beside.pid, 100)

        sample = device.sample({"lease": Tree(os.getpid(), os.getpid(), counts_root=True)})

        assert sample.by_tree["lease"] == 100 * MIB
    finally:
        beside.kill()
        beside.wait()
