"""The soak, for a few seconds: all of it is `python -m tests.faults soak`."""

from pathlib import Path

import pytest

from tests.faults.forms import FULL
from tests.faults.soak import Report, soak
from tests.faults.vitals import Vitals

pytestmark = pytest.mark.e2e

SCALE = 0.005
SEED = 10


@pytest.mark.skipif(FULL, reason="the whole soak is run by itself")
def test_load_10_after_a_short_soak_nothing_is_lost_and_nothing_is_left(tmp_path: Path) -> None:
    report = soak(SCALE, SEED, tmp_path)

    assert report.clean, f"{report.text()}\n{(tmp_path / 'log').read_text()}"
    for what in ("brokers killed", "workers killed", "jobs killed", "clients killed"):
        assert report.done[what] >= 1, report.text()


def test_descriptors_that_are_left_fail_a_whole_soak() -> None:
    before, end = Vitals(fds=50, job_processes=8), Vitals(fds=56, job_processes=9)

    assert not Report(whole=True, before=before, end=end).clean
    assert Report(before=before, end=end).clean  # a job process may be idle for a minute


def test_what_was_not_done_in_time_fails_a_soak() -> None:
    assert not Report(undone=1).clean
    assert Report().clean
