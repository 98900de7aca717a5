"""Fixtures: an own home for every module, a broker in it, and no process left at the end."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.parcels import find_parcels
from tests.nvml.driver import FakeDriver
from tests.waiting import processes_marked, until

MARK = "GRN_TEST_RUN"


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every process of a test run inherits this mark; at the end none may be alive."""
    os.environ[MARK] = uuid.uuid4().hex
    yield
    if "grn_zmq.client" in __import__("sys").modules:
        from grn_zmq.client import this_client

        this_client().close()
    until(lambda: not processes_marked(MARK, os.environ[MARK]), 15, lambda: left())


def left() -> str:
    return f"processes left behind: {processes_marked(MARK, os.environ[MARK])}"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of its own, with a path short enough for sockets; no broker runs in it."""
    directory = Path(tempfile.mkdtemp(prefix="grn-"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            place = directory / name.split("_")[1].lower()
            place.mkdir(mode=0o700)
            patch.setenv(name, str(place))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.delenv("GRN_NAME", raising=False)
        yield directory
        shutil.rmtree(find_parcels(os.environ).shm, ignore_errors=True)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def host_server(home: Path) -> Iterator[grn.Server]:
    """A broker with two devices of 1000 MiB of host memory, for the whole module."""
    with grn.start("host:2x1000MiB", max_jobs=8, debug=True) as server:
        yield server
        forget_client()


@pytest.fixture(scope="module")
def small_server(home: Path) -> Iterator[grn.Server]:
    """The same with two jobs at once on each: fewer job processes to start."""
    with grn.start("host:2x1000MiB", max_jobs=2, debug=True) as server:
        yield server
        forget_client()


@pytest.fixture(scope="module")
def gpus(home: Path) -> Iterator[FakeDriver]:
    """Two stand-in GPUs of 1000 MiB that this process and all it starts can see."""
    driver = FakeDriver(home / "nvml", [1000, 1000])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        yield driver


@pytest.fixture(scope="module")
def gpu_server(gpus: FakeDriver) -> Iterator[grn.Server]:
    """A broker that manages the stand-in GPUs, for the whole module."""
    with grn.start("nvml", debug=True) as server:
        yield server
        forget_client()


def forget_client() -> None:
    """Leave a broker that is about to stop; the next call finds the next one."""
    from grn_zmq.client import this_client

    this_client().close()
