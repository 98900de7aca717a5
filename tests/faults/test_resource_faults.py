"""F62: limits so low that the system cannot start, or can take little."""

import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from grn_zmq.limits import PARCEL_BYTES
from tests.cli.scripts import TRACEBACK, Running, any_alive, descendants, script
from tests.faults import misdeeds
from tests.faults.harness import DEVICES, System
from tests.faults.second_user import SecondUser, second_user
from tests.waiting import until

pytestmark = pytest.mark.e2e

PRLIMIT = shutil.which("prlimit") or ""
FILES = 64
# Too little for the threads of a socket library, and more than an interpreter needs.
LITTLE_BYTES = 50_000_000
MANY = 1000
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
@pytest.mark.parametrize("limit", ["--nofile=40:40", f"--as={LITTLE_BYTES}"])
def test_f62_a_start_that_cannot_succeed_ends_with_nothing_left(limit: str) -> None:
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


def start_as(user: SecondUser, processes: int) -> Running:
    """A `grn start` of another user, who may have so many processes and threads."""
    limited = [*user.become, PRLIMIT, f"--nproc={processes}:{MANY}"]
    command = [*limited, user.python, "-m", "grn_zmq.cli.main", "start", *DEVICES]
    return Running(*command, environment=user.environment)


@pytest.mark.parametrize("processes", [1, 2, 4, 6])
def test_f62_a_start_with_too_few_processes_ends_with_nothing_left(processes: int) -> None:
    with second_user() as user, start_as(user, processes) as refused:
        assert refused.ended(30) != 0
        assert user.processes() == []
        assert TRACEBACK not in refused.err
        assert "Ready" not in refused.out
        assert "temporarily unavailable" in refused.err
        if processes <= 2:
            assert "ulimit -u" in refused.err


def test_f62_a_broker_that_cannot_be_started_again_yet_is_started_later() -> None:
    with second_user() as user, start_as(user, MANY) as server:
        server.until_out("Ready in ")
        everybody = user.processes()
        (broker,) = [one for one in descendants(server.pid) if "grn_zmq.broker" in words(one)]
        limit(user, server.pid, 1)

        os.kill(broker, signal.SIGKILL)

        server.until_err("the broker cannot be started: Resource temporarily unavailable")
        limit(user, server.pid, MANY)
        server.until_err("broker ready epoch=2")
        until(lambda: server.err.count("worker joined") == 4, 10, server.said)
        assert {*any_alive(everybody)} == {*everybody} - {broker}


def limit(user: SecondUser, pid: int, processes: int) -> None:
    """Let a process of this user start others only while the user has less than so many."""
    words = [*user.become, PRLIMIT, f"--pid={pid}", f"--nproc={processes}:{MANY}"]
    subprocess.run(words, check=True)


def words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


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
