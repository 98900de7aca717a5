"""The callers of inline jobs, as the pool watches them."""

import os
import resource
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path

import pytest

from grn_zmq.units import MIB
from workers.launcher import ExecLauncher
from workers.pool import Pool
from workers.proctree import resident_and_peak

HELD = 64 * MIB


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(ExecLauncher())
    yield pool
    pool.close()


def hold_for_a_moment() -> None:
    with mmap(-1, HELD) as held:  # not of a heap that may have room from before
        held.write(b"\1" * HELD)


def test_what_a_caller_had_before_its_job_is_no_peak_of_the_job(pool: Pool) -> None:
    hold_for_a_moment()
    resident, peak = resident_and_peak(os.getpid())
    assert peak - resident > HELD // 2

    assert pool.watch_caller("job", os.getpid())

    resident, peak = resident_and_peak(os.getpid())
    assert peak - resident < HELD // 2


def test_a_caller_that_cannot_be_watched_is_not_gone(pool: Pool) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = os.open(os.devnull, os.O_RDONLY)
    spare = os.dup(last)  # what looking into /proc takes is there
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, before[1]))
    try:
        assert pool.watch_caller("job", os.getpid())
        assert pool.caller_tree("job") is not None
        assert list(pool.events()) == []
        pool.unwatch_caller("job")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(last)
        os.close(spare)

    assert pool.caller_tree("job") is None


def test_a_caller_that_does_not_exist_is_gone(pool: Pool) -> None:
    nobody = int(Path("/proc/sys/kernel/pid_max").read_text())

    assert not pool.watch_caller("job", nobody)
