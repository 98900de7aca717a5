"""Leases on a machine with one GPU: two claimers, a display, a driver that fails."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.listed import all_jobs
from tests.e2e.scene import a_stranger, device
from tests.e2e.scripts import all_leases_are_freed
from tests.leases.claimers import Claimer, Raised
from tests.nvml.driver import FOR_EVER, FakeDriver
from tests.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[FakeDriver]:
    """One GPU of 1000 MiB that drives the display, under a broker."""
    driver = FakeDriver(home / "nvml", [1000])
    driver.set(0, "display", 1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        with grn.start("nvml", debug=True):
            yield driver
            forget_client()


@pytest.fixture
def gpu(machine: FakeDriver) -> Iterator[FakeDriver]:
    yield machine
    all_leases_are_freed(10)


def test_s19_of_two_claimers_the_second_fails_or_waits_and_never_shares(
    gpu: FakeDriver,
) -> None:
    with Claimer(gpu) as first, Claimer(gpu) as second:
        assert first.claim() == [0]
        with pytest.raises(Raised, match="1 wanted, of 1 device none is free"):
            second.claim("timeout=0")
        second.claim_later()
        until(lambda: any(row.state == "queued" for row in all_jobs(ended=False)))
        assert sum(row.state == "running" for row in all_jobs(ended=False)) == 1

        first.release()

        assert second.answer() == [0]


def test_s18_the_only_gpu_is_given_although_its_display_holds_memory(gpu: FakeDriver) -> None:
    with a_stranger() as server, a_stranger() as compositor, Claimer(gpu) as claimer:
        gpu.hold(0, server, 150, graphics=True)
        gpu.hold(0, compositor, 50)
        until(lambda: device(0).foreign_bytes)

        assert claimer.claim("timeout=5") == [0]
        claimer.alloc(700)
    until(lambda: not device(0).foreign_bytes)


def test_s17_a_failing_driver_raises_the_documented_error(gpu: FakeDriver) -> None:
    gpu.fail_next("memory", FOR_EVER)
    gpu.fail_next("processes", FOR_EVER)
    with Claimer(gpu) as claimer:
        until(lambda: _refused(claimer), 30)
    gpu.fail_next("memory", 0)
    gpu.fail_next("processes", 0)
    with Claimer(gpu) as claimer:
        assert claimer.claim("timeout='60s'") == [0]


def _refused(claimer: Claimer) -> bool:
    """Whether a claim ends with DeviceError; at first nobody knows that the driver fails."""
    try:
        claimer.claim()
    except Raised as error:
        return "DeviceError: no device can be leased" in str(error)
    claimer.release()
    return False


def test_s17_a_driver_that_is_gone_raises_the_same_error(gpu: FakeDriver) -> None:
    gpu.no_driver()
    os.kill(device(0).worker_pid, signal.SIGKILL)  # the next one finds no driver
    with Claimer(gpu) as claimer:
        until(lambda: _refused(claimer), 30)
    gpu.no_driver(missing=False)
    with Claimer(gpu) as claimer:
        assert claimer.claim("timeout='60s'") == [0]
