"""What a job runs in is looked at with each call, and made anew only when it has changed."""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from grn_zmq import surroundings as module
from grn_zmq.context import Context
from grn_zmq.surroundings import LOOK_S, Surroundings, surroundings


def context_now() -> Context:
    return Context.from_bytes(surroundings().context({}).data)


def settled() -> Surroundings:
    """As after a burst of calls; so that the next look is still some time away."""
    time.sleep(LOOK_S)
    return surroundings()


def test_unchanged_surroundings_are_the_same_object() -> None:
    before = settled()
    blob = before.context({})

    assert surroundings() is before
    assert surroundings().context({}) is blob
    assert surroundings().context({"A": "1"}) is surroundings().context({"A": "1"})
    assert surroundings().context({"A": "2"}) != surroundings().context({"A": "1"})


def test_a_variable_a_directory_a_path_and_an_argument_are_seen_at_the_very_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled()
    monkeypatch.setenv("GRN_TEST_NEW", "1")
    assert context_now().environment["GRN_TEST_NEW"] == "1"
    monkeypatch.setenv("GRN_TEST_NEW", "2")
    assert context_now().environment["GRN_TEST_NEW"] == "2"
    monkeypatch.delenv("GRN_TEST_NEW")
    assert "GRN_TEST_NEW" not in context_now().environment
    monkeypatch.chdir(tmp_path)
    assert context_now().cwd == str(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert context_now().sys_path[0] == str(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv, "more"])
    assert context_now().argv[-1] == "more"
    sys.argv[-1] = "other"
    assert context_now().argv[-1] == "other"


@contextmanager
def another_umask() -> Iterator[None]:
    before = os.umask(0o027)
    os.umask(0o026 if before == 0o027 else 0o027)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def another_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    changed = 4096 if soft != 4096 and hard in (resource.RLIM_INFINITY, soft) else 0
    if hard == 0:
        pytest.skip("this limit cannot be changed here")
    resource.setrlimit(resource.RLIMIT_CORE, (changed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.mark.parametrize("change", [another_umask, another_limit])
def test_umask_and_limits_are_seen_by_a_call_that_is_not_of_the_same_burst(
    change: Callable[[], AbstractContextManager[None]],
) -> None:
    before = settled().context({})

    with change():
        time.sleep(LOOK_S)
        changed = surroundings().context({})
    time.sleep(LOOK_S)

    assert changed != before
    assert surroundings().context({}) == before


def test_a_burst_looks_at_umask_and_limits_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def looked() -> int:
        nonlocal looks
        looks += 1
        return settled_umask

    settled_umask = settled().umask
    monkeypatch.setattr(module, "umask", looked)
    started = time.monotonic()
    for _ in range(1000):
        surroundings()

    assert looks <= 1 + (time.monotonic() - started) / LOOK_S
