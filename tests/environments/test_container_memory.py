"""What a container holds on a GPU is its job's, though it lives below another process."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from grn_zmq.units import MIB
from tests.builders import an_id
from tests.nvml.driver import LIBRARY, FakeDriver
from workers.devices.device import Sample, Tree
from workers.devices.nvml import NvmlDevice

pytestmark = pytest.mark.e2e


@contextmanager
def a_process(**variables: str) -> Iterator[int]:
    """A process that is below nothing of ours; gives its pid."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, **variables})
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver(tmp_path, [1000])
    monkeypatch.setenv("FAKE_NVML_DIR", driver.environment()["FAKE_NVML_DIR"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(tmp_path / "lib" / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return driver


def sampled(driver: FakeDriver, *job_ids: str) -> Sample:
    """A look at the device while these jobs have a client each, which holds nothing."""
    device = NvmlDevice(driver.uuid(0))
    with a_process() as client:
        sample = device.sample({one: Tree(client, client, counts_root=True) for one in job_ids})
    device.close()
    return sample


def test_memory_of_a_container_is_that_of_the_job_it_was_started_for(
    driver: FakeDriver,
) -> None:
    with a_process(GRN_JOB_ID=an_id(1)) as container:
        driver.hold(0, container, 300)

        sample = sampled(driver, an_id(1))

    assert sample.by_tree == {an_id(1): 300 * MIB}
    assert sample.foreign_bytes == 0
    assert sample.owners == {container: an_id(1)}


@pytest.mark.parametrize("variables", [{}, {"GRN_JOB_ID": an_id(2)}])
def test_memory_of_all_others_is_foreign(driver: FakeDriver, variables: dict[str, str]) -> None:
    with a_process(**variables) as stranger:
        driver.hold(0, stranger, 300)

        sample = sampled(driver, an_id(1))

    assert sample.by_tree == {an_id(1): 0}
    assert sample.foreign_bytes == 300 * MIB
