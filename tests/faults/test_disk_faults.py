"""Faults of the disk below a running system: F55 to F58, F60, F63.

What the journal alone does is in test_state_files.py, the power cut F59 in test_power_cut.py.
"""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import TRACEBACK, run
from tests.faults import misdeeds
from tests.faults.forms import pick
from tests.faults.harness import DEVICES, System
from tests.faults.mounts import MIB, fill, read_only, small_disk
from tests.faults.strace import failing_calls
from tests.waiting import until

pytestmark = pytest.mark.e2e

JOBS = pick(60, 400)
STALLS = pick(3, 10)
# Exit status of a broker that cannot trust its disk; the supervisor logs it.
BROKEN = "which=broker status=70"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("disk") / "disk", 64 * MIB) as disk:
        yield disk


def test_f55_on_a_full_disk_jobs_are_refused_and_running_ones_still_end(
    disk: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with System(state_home=disk) as system:
        running = [
            system.direct.submit(misdeeds.wait_for, str(gate), detached=detached, type="known")
            for detached in (True, False)
        ]
        system.until_started(1)
        filler = fill(disk)

        until(lambda: "the disk is nearly full" in system.log(), 5, system.log)
        refused = system.direct.submit(misdeeds.nothing, type="known")
        gate.touch()
        ends = [system.direct.end(one) for one in running]

        assert isinstance(refused.exception(), grn.DiskFull)
        assert ends == [None, None]
        filler.unlink()
        until(lambda: "the disk has room again" in system.log(), 5, system.log)
        again = system.direct.submit(misdeeds.give, 7, value=7, detached=True)
        assert system.direct.end(again) == 7
        system.settle()
        system.assert_clean()


def test_f56_what_a_disk_refuses_now_and_then_is_refused_or_done_whole() -> None:
    with System() as system:
        load = system.load(JOBS, seconds=(0.0,), pause_s=0.02)
        load.until("accepted", 1)
        with failing_calls(system.broker_pid(), "pwrite64", "ENOSPC", "25+25"):
            load.wait(60)

        assert "the disk is full: ballast is gone" in system.log()
        assert load.count("refused") + load.count("told") == JOBS
        system.settle(60)
        system.assert_clean()


def test_f57_a_broker_whose_disk_fails_to_sync_starts_anew_and_has_all_it_took() -> None:
    with System() as system:
        load = system.load(JOBS, seconds=(0.0,), detached=4, pause_s=0.02)
        load.until("accepted", 5)
        with failing_calls(system.broker_pid(), "fsync,fdatasync", "EIO", "3"):
            until(lambda: BROKEN in system.log(), 15, system.log)
        load.wait(60)

        assert load.count("told") == JOBS
        system.settle(60)
        assert system.assert_clean() == {"succeeded": JOBS}


def test_f58_a_broker_whose_files_may_not_grow_starts_anew_and_has_all_it_took() -> None:
    with System() as system:
        system.load(2).wait()
        log = system.state.with_name(system.state.name + "-wal")
        limit = max(log.stat().st_size, system.state.stat().st_size) + 100_000
        resource.prlimit(system.broker_pid(), resource.RLIMIT_FSIZE, (limit, limit))

        load = system.load(JOBS, seconds=(0.0,), detached=4, pause_s=0.02)

        until(lambda: BROKEN in system.log(), 20, system.log)
        load.wait(60)
        system.settle(60)
        assert system.assert_clean() == {"succeeded": JOBS + 2}


def test_f60_a_slow_disk_costs_time_and_nothing_else() -> None:
    with System() as system:
        broker, workers = system.broker_pid(), system.worker_pids()
        load = system.load(JOBS, seconds=(0.0, 0.1), pause_s=0.05)
        load.until("accepted", 1)
        for _ in range(STALLS):
            system.arm("journal.before-commit", "sleep 2")
            system.until_fired("journal.before-commit")

        load.wait(60)

        assert (system.broker_pid(), system.worker_pids()) == (broker, workers)
        assert "died" not in system.log()
        system.settle()
        assert system.assert_clean() == {"succeeded": JOBS}


@pytest.mark.usefixtures("home")
def test_f63_a_read_only_state_directory_is_refused_in_one_line(disk: Path) -> None:
    with read_only(disk):
        refused = run("grn", "start", *DEVICES, environment={"XDG_STATE_HOME": str(disk)})

    said = refused.stderr.decode()
    complaints = [line for line in said.splitlines() if line.startswith("grn")]
    assert refused.returncode == 1
    assert TRACEBACK not in said
    assert len(complaints) == 1, said
    assert "ead-only" in complaints[0]
    assert "XDG_STATE_HOME" in complaints[0]
