"""The benchmark of commands: it says what it measured, and leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


def test_one_round_gives_three_figures_and_leaves_no_directory(home: Path) -> None:
    place = home / "tmp"  # a path short enough for sockets
    place.mkdir()

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.commands", "--rounds", "1", "--json"],
        capture_output=True,
        cwd=ROOT,
        timeout=60 * PATIENCE,
        env={**os.environ, "TMPDIR": str(place)},
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["commands"]
    assert [one["command"] for one in figures] == ["python -c pass", "grn --help", "grn ps"]
    assert figures[0]["ratio"] == 1.0
    assert all(one["median_s"] > 0 for one in figures)
    assert list(place.iterdir()) == []
