"""F61: the wall clock of broker and workers jumps; nothing that is measured in time notices."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import misdeeds
from tests.faults.clocks import DAY_S, Clock
from tests.faults.harness import System
from tests.waiting import until

pytestmark = pytest.mark.e2e

# One job at a time, so that their order shows.
DEVICES = ("--devices", "host:1x500MiB", "--max-jobs", "1")
WAITING = 4


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


@pytest.fixture
def system(clock: Clock) -> Iterator[System]:
    with System(*DEVICES, environment=clock.environment()) as made:
        yield made


def test_f61_when_the_clock_jumps_no_time_runs_out_and_the_order_is_kept(
    clock: Clock, system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    broker, workers = system.broker_pid(), system.worker_pids()
    running = system.direct.submit(misdeeds.wait_for, str(gate), type="f61", time_limit="1h")
    system.until_started(1)
    waiting = []
    for difference_s in (DAY_S, -DAY_S):
        clock.set(difference_s)
        waiting += [
            system.direct.submit(
                misdeeds.give, n, value=n, type="f61", timeout="1h", detached=n % 2 == 0
            )
            for n in range(WAITING)
        ]
        # As long as it takes until each side has looked at its clocks.
        looked_at = time.monotonic()
        until(lambda looked_at=looked_at: time.monotonic() > looked_at + 2.5)  # type: ignore[misc]
        assert (system.broker_pid(), system.worker_pids()) == (broker, workers)
        assert [row.state for row in system.jobs() or ()].count("queued") == len(waiting)

    gate.touch()
    assert system.direct.end(running) is None
    assert [system.direct.end(one) for one in waiting] == [*range(WAITING)] * 2
    started = [line[1] for line in system.ledger.lines() if line[0] == "start"]
    assert started == [running.job_id, *(one.job_id for one in waiting)]
    assert days_in(system.log()) >= 2
    system.settle()
    system.assert_clean()


def test_f61_a_broker_that_starts_again_on_another_day_still_waits_for_its_jobs(
    clock: Clock, system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = system.direct.submit(misdeeds.wait_for, str(gate), type="f61", time_limit="1h")
    system.until_started(1)
    waiting = system.direct.submit(misdeeds.give, 7, value=7, type="f61", timeout="1h")

    clock.set(DAY_S)
    system.kill(system.broker_pid())
    system.wait_back(devices=1)

    assert [row.state for row in system.jobs() or ()].count("queued") == 1
    gate.touch()
    assert system.direct.end(running) is None
    assert system.direct.end(waiting) == 7
    system.settle()
    system.assert_clean()


def days_in(log: str) -> int:
    """How many different days lines of the log are of: proof that the clock did jump."""
    return len({line[:10] for line in log.splitlines() if line[:2] == "20"})
