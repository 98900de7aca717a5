"""The whole way: later job processes come with what the first has imported."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.waiting import until
from tests.workers.warming import install

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A package that is worth importing in advance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(install(tmp_path_factory.mktemp("lib"), "heavy"))
        yield


def loader() -> Callable[[], tuple[bool, int]]:
    """A job that travels by value, so that no module of the tests is loaded for it."""

    @grn.job(reuse=False, type="heavy")
    def load() -> tuple[bool, int]:
        warm = "heavy" in sys.modules
        importlib.import_module("heavy")
        return warm, os.getpid()

    return load


def test_a_new_process_of_a_known_type_is_warm(small_server: grn.Server) -> None:
    load = loader()
    first, pid = load()

    until(lambda: load()[0])

    assert not first
    assert load()[1] != pid


def test_jobs_of_a_warm_process_that_is_killed_are_told_as_ever(
    small_server: grn.Server,
) -> None:
    @grn.job(reuse=False, type="heavy")
    def die() -> None:
        os.kill(os.getpid(), 9)

    load = loader()
    until(lambda: load()[0])

    with pytest.raises(grn.JobKilled):
        die()
    assert load()[0]


def test_it_can_be_switched_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_client()
    monkeypatch.setenv("GRN_WARM", "0")
    monkeypatch.setenv("GRN_NAME", "cold")
    with grn.start("host:1x500MiB"):
        load = loader()

        assert [load()[0] for _ in range(4)] == [False] * 4
        forget_client()
