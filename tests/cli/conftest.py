"""Fixtures of queues: six stand-in GPUs, a broker that manages them, gates, and queues."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.gates import Gates
from tests.cli.queuing import MakeQueue
from tests.cli.scripts import BIN, started
from tests.cli.verbs import facts, grn, said
from tests.conftest import forget_client
from tests.nvml.driver import FakeDriver
from tests.waiting import until


@pytest.fixture(scope="module")
def six_gpus(home: Path) -> Iterator[FakeDriver]:
    """Six stand-in GPUs of 1000 MiB, and `grn` and `python` on PATH."""
    driver = FakeDriver(home / "nvml", [1000] * 6)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        patch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
        yield driver


@pytest.fixture(scope="module")
def six_gpu_server(six_gpus: FakeDriver) -> Iterator[None]:
    """A broker of `grn start --devices nvml`."""
    with started("--devices", "nvml"):
        yield
        forget_client()


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Gates]:
    gates = Gates(tmp_path)
    yield gates
    gates.close()


@pytest.fixture
def no_queues(six_gpu_server: None) -> Iterator[None]:
    """Afterwards no queue is left, and no job of one."""
    yield
    for name in _names():
        grn("delete-queue", name, "--kill")
    until(lambda: not _names(), 30)
    grn("clean", "--all")


def _names() -> list[str]:
    return [one["name"] for one in facts("show") if one["name"]]


@pytest.fixture
def queue(no_queues: None) -> MakeQueue:
    """Make queues that are gone afterwards, with all of their jobs."""

    @contextmanager
    def make(name: str, capacity: str, *words: str) -> Iterator[str]:
        said("create-queue", name, "--json", capacity, *words)
        try:
            yield name
        finally:
            grn("delete-queue", name, "--kill")
            until(lambda: name not in _names(), 30)

    return make
