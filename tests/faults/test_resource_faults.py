"""F62: limits so low that the system cannot start, or can take little."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from grn_zmq.limits import PARCEL_BYTES
from tests.cli.scripts import TRACEBACK, Running, any_alive, descendants, script
from tests.faults import misdeeds
from tests.faults.harness import DEVICES, System
from tests.waiting import until

pytestmark = pytest.mark.e2e

PRLIMIT = shutil.which("prlimit") or ""
FILES = 64
# Too little for the threads of a socket library, and more than an interpreter needs.
LITTLE_BYTES = 50_000_000
JOBS = 20
# As large as arguments may be that travel through the broker.
LARGE_BYTES = PARCEL_BYTES * 9 // 10


@pytest.fixture(autouse=True)
def has_prlimit() -> None:
    if not PRLIMIT:
        pytest.skip("there is no prlimit here")


def test_f62_few_files_are_enough_for_a_few_clients() -> None:
    with System(below=(PRLIMIT, f"--nofile={FILES}:{FILES}")) as system:
        limits = Path(f"/proc/{system.broker_pid()}/limits").read_text()
        assert f"Max open files            {FILES} " in limits
        system.load(8)
        system.load(8)

        system.settle()

        assert system.assert_clean() == {"succeeded": 16}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("limit", ["--nofile=40:40", f"--as={LITTLE_BYTES}", "--nproc=3:3"])
def test_f62_a_start_that_cannot_succeed_ends_with_nothing_left(limit: str) -> None:
    if "nproc" in limit and os.geteuid() == 0:
        pytest.skip("the kernel sets root no limit on processes")
    command = [*script("grn"), "start", *DEVICES]
    with Running(PRLIMIT, limit, *command) as refused:
        below: set[int] = set()

        def ended() -> bool:
            below.update(descendants(refused.pid))
            return refused.process.poll() is not None

        until(ended, 30, refused.said)

        assert refused.ended() != 0
        assert not any_alive(list(below))
        if "nofile" in limit:
            assert TRACEBACK not in refused.err
            assert "only 40 files may be open at once" in refused.err


def test_f62_a_broker_that_gets_no_more_memory_is_followed_by_one_that_knows_all() -> None:
    with System() as system:
        system.load(2).wait()
        broker = system.broker_pid()
        size = resource_size(broker)
        resource.prlimit(broker, resource.RLIMIT_AS, (size, size))

        data = bytes(LARGE_BYTES)
        jobs = [
            system.direct.submit(misdeeds.size_of, data, value=LARGE_BYTES, detached=True)
            for _ in range(JOBS)
        ]

        assert [system.direct.end(job, 60) for job in jobs] == [LARGE_BYTES] * JOBS
        assert "which=broker" in system.log()
        system.settle(60)
        assert system.assert_clean() == {"succeeded": JOBS + 2}


def resource_size(pid: int) -> int:
    """All the addresses that a process has by now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")
