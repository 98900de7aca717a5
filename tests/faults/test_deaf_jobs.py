"""F41: a job that ignores SIGTERM and has daemons is gone, and its memory used, in time."""

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.futures import Future
from tests.cli.scripts import any_alive
from tests.faults import misdeeds
from tests.faults.direct import outcome_of
from tests.faults.harness import System
from tests.faults.misdeeds import MIB
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

GRACE_S = 0.5
# Long enough for the next job to be there already, on a loaded machine too.
LIMIT_S = 2.0 * PATIENCE
# From the grace to the first line of the next job.
SOON_S = 1.0
DAEMONS = 2
# On one device of 500 MiB: two such jobs do not fit.
HELD_MIB = 300


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System("--devices", "host:1x500MiB", "--max-jobs", "4") as made:
        yield made
        made.settle()
        made.assert_clean()


class Scene:
    """A deaf job that has all the memory, and one that waits for it."""

    def __init__(self, system: System, pids: Path, **options: Any) -> None:
        self._system = system
        self._began, self._next_began = Path(f"{pids}.began"), Path(f"{pids}.next")
        direct = system.direct
        direct.end(self._submit_next())  # now it is known what it needs
        self.deaf = direct.submit(
            misdeeds.be_deaf, str(pids), HELD_MIB, grace=GRACE_S, memory="300MiB", **options
        )
        until(lambda: pids.exists() and pids.read_text().count("\n") == DAEMONS)
        self.tree = [*map(int, pids.read_text().split()), *system.running().values()]
        until(lambda: system.devices()[0].used_bytes >= HELD_MIB * MIB)
        self.next = self._submit_next()
        assert [row.state for row in system.jobs() or ()] == ["running", "queued"]

    def _submit_next(self) -> Future[Any]:
        path = str(self._next_began)
        return self._system.direct.submit(misdeeds.note_time, path, HELD_MIB, type="f41 next")

    @property
    def began_at(self) -> float:
        """When the deaf job began."""
        return float(self._began.read_text())

    def next_began_at(self) -> float:
        """Wait for the next job; nothing of the deaf one may be left when it begins."""
        assert self._system.direct.end(self.next) is None
        assert not any_alive(self.tree)
        return float(self._next_began.read_text())

    def error(self) -> Any:
        """What its client gets of the deaf job."""
        return self._system.direct.end(self.deaf)


def test_f41_the_memory_of_a_cancelled_deaf_job_is_used_after_its_grace(
    system: System, tmp_path: Path
) -> None:
    scene = Scene(system, tmp_path / "pids", outcome="cancelled", type="f41 cancelled")
    cancelled_at = time.monotonic()

    assert scene.deaf.cancel()

    took_s = scene.next_began_at() - cancelled_at
    print(f"the next began {took_s:.2f} s after the cancel, the grace was {GRACE_S} s")
    assert GRACE_S <= took_s < GRACE_S + SOON_S * PATIENCE
    assert isinstance(scene.error(), CancelledError)


def test_f41_the_memory_of_a_deaf_job_over_its_limit_is_used_after_its_grace(
    system: System, tmp_path: Path
) -> None:
    scene = Scene(
        system, tmp_path / "pids", outcome="timed-out", type="f41 limited", time_limit=LIMIT_S
    )

    over_s = scene.next_began_at() - scene.began_at - LIMIT_S

    print(f"the next began {over_s:.2f} s after the limit, the grace was {GRACE_S} s")
    assert over_s < GRACE_S + SOON_S * PATIENCE
    assert isinstance(scene.error(), grn.TimeLimitExceeded)
    assert outcome_of(scene.deaf).run_s >= LIMIT_S + GRACE_S
