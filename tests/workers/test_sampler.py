"""Whose memory a look shows, with real job processes on a stand-in GPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.context import Context
from grn_zmq.records import Leased
from grn_zmq.units import MIB
from tests.builders import a_run
from tests.nvml.driver import FakeDriver
from tests.nvml.plugging import plug_in
from tests.waiting import until
from workers.core import WorkerCore
from workers.devices.nvml import NvmlDevice
from workers.launcher import ExecLauncher
from workers.pool import Pool
from workers.proctree import children
from workers.sampler import Sampler

pytestmark = pytest.mark.e2e

HELD_MIB = 300


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return plug_in(monkeypatch, tmp_path, 1000)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(ExecLauncher())
    yield pool
    pool.close()


def test_a_job_process_that_was_not_heard_to_be_ready_is_no_stranger(
    driver: FakeDriver, pool: Pool
) -> None:
    device = NvmlDevice(driver.uuid(0))
    core = WorkerCore(on_host=False, total_bytes=device.info.total_bytes)
    sampler = Sampler(device, pool, core)
    process = core.processes.new(a_run(devices=(Leased(driver.uuid(0), 0, "nvml:0"),)))
    pool.launch(process.key, Context.capture(), {})
    tree = pool.tree(process.key, with_baseline=False)
    assert tree is not None
    until(lambda: children(tree.root_pid))
    driver.hold(0, children(tree.root_pid)[0], HELD_MIB)

    level = sampler.look()

    assert pool.tree(process.key) is None  # nobody has listened to it
    assert level is not None
    assert (level.used_bytes, level.foreign_bytes) == (HELD_MIB * MIB, 0)
    device.close()
