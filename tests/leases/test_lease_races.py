"""Claims at the same moment, by many processes: never two holders, and everybody is served."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.scene import MIB, ROOT, device
from tests.e2e.scripts import all_leases_are_freed, leases
from tests.leases.claimers import Claimer
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

RACERS = 50
DIES = 5


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[FakeDriver]:
    """Four GPUs of 1000 MiB under a broker."""
    driver = FakeDriver(home / "nvml", [1000] * 4)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        with grn.start("nvml"):
            yield driver
            forget_client()


def test_s06_fifty_processes_race_for_four_leases_with_a_pause_before_the_first_use(
    machine: FakeDriver, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.leases.racing", str(tmp_path), str(RACERS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90 * PATIENCE,
    )

    ends = list(map(int, done.stdout.split()))
    assert ends == [-9 if n % DIES == 0 else 0 for n in range(RACERS)], done.stderr
    served = [line.split() for line in (tmp_path / "served").read_text().splitlines()]
    assert sorted(int(number) for number, _ in served) == list(range(RACERS))
    assert {int(index) for _, index in served} == {0, 1, 2, 3}
    all_leases_are_freed(2)


def test_s20_four_ranks_that_are_started_together_get_four_devices(
    machine: FakeDriver,
) -> None:
    with (
        Claimer(machine) as one,
        Claimer(machine) as two,
        Claimer(machine) as three,
        Claimer(machine) as four,
    ):
        ranks = (one, two, three, four)
        for rank in ranks:
            rank.claim_later("debug_delay=0.2")

        assert sorted(index for rank in ranks for index in rank.answer()) == [0, 1, 2, 3]
    all_leases_are_freed(10)


@contextmanager
def a_program_with_ranks(gate: Path) -> "Iterator[subprocess.Popen[str]]":
    """A parent and two ranks, who wait at the gate; whoever is left is killed."""
    os.mkfifo(gate)
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.leases.ranks", str(gate)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with program:
        try:
            yield program
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)


def test_s21_a_parent_leases_two_and_each_rank_has_its_own(
    machine: FakeDriver, tmp_path: Path
) -> None:
    with a_program_with_ranks(tmp_path / "gate") as program:
        assert program.stdout is not None
        said = sorted(program.stdout.readline().split() for _ in range(3))
        (_, *devices, parent), (_, _, zero), (_, _, one) = said
        first, second = map(int, devices)

        assert machine.by_pid(first) == {int(zero): 100}
        assert machine.by_pid(second) == {int(one): 101}
        assert int(parent) == program.pid
        # What the ranks use is the lease's: nobody takes them for strangers.
        until(lambda: device(first).used_bytes == 100 * MIB)
        until(lambda: device(second).used_bytes == 101 * MIB)
        until(lambda: device(first).foreign_bytes == device(second).foreign_bytes == 0)
        assert leases() == 2
        with open(tmp_path / "gate", "w"):
            pass
        assert program.wait(20 * PATIENCE) == 0
    all_leases_are_freed(10)
