"""The soak, for a few seconds: all of it is `python -m tests.faults soak`."""

from pathlib import Path

import pytest

from tests.faults.forms import FULL
from tests.faults.soak import soak

pytestmark = pytest.mark.e2e

SCALE = 0.005
SEED = 10


@pytest.mark.skipif(FULL, reason="the whole soak is run by itself")
def test_load_10_after_a_short_soak_nothing_is_lost_and_nothing_is_left(tmp_path: Path) -> None:
    report = soak(SCALE, SEED, tmp_path)

    assert report.clean, f"{report.text()}\n{(tmp_path / 'log').read_text()}"
    for what in ("brokers killed", "workers killed", "jobs killed", "clients killed"):
        assert report.done[what] >= 1, report.text()
