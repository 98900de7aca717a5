"""Tiny benchmarks with real processes: they tell what they saw, and leave nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.cli.scripts import TRACEBACK, Running, run
from tests.waiting import PATIENCE, processes_marked, until

pytestmark = pytest.mark.e2e

ROOT: Final = Path(__file__).parents[2]
MARK: Final = "BENCH_TEST_MARK"

TWO_CHILDREN: Final = """
import dataclasses, json, sys
from grn_zmq.bench.running import runner
from grn_zmq.bench.sizes import QUICK

size = dataclasses.replace(QUICK, deadline_s=1.0)
# It writes a sample, leaves a process that ignores SIGTERM, and does not end.
hangs = '''
import subprocess, sys, time
open(sys.argv[4], "a").write('["rate", 2.0]')
subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60 & wait; wait"], start_new_session=True)
time.sleep(60)
'''
with runner(size, lambda what: None) as running:
    found = [
        running.measure("noop", "wrong", [sys.executable, "-c", "raise ValueError('no such')"]),
        running.measure("noop", "hangs", [sys.executable, "-c", hangs]),
    ]
print(json.dumps([(one.trouble, one.samples) for one in found]))
"""


@pytest.fixture
def apart(home: Path) -> Iterator[Mapping[str, str]]:
    """An environment by which all that a benchmark starts and writes can be found."""
    places = Path(tempfile.mkdtemp(prefix="grn-"))
    mark = uuid.uuid4().hex
    yield {MARK: mark, "TMPDIR": str(places), "PYTHONDONTWRITEBYTECODE": "1"}
    until(
        lambda: not processes_marked(MARK, mark), 20, lambda: f"{processes_marked(MARK, mark)}"
    )
    assert list(places.iterdir()) == []
    assert [path for path in home.rglob("*") if not path.is_dir()] == []
    shutil.rmtree(places)


def test_a_tiny_run_checks_all_and_writes_every_sample(
    apart: Mapping[str, str], tmp_path: Path
) -> None:
    words = ["--quick", "--only", "noop,latency", "--peers", "process-pool"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words, "--json", str(tmp_path / "all.json")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60 * PATIENCE,
        env={**os.environ, **apart},
    )

    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "all.json").read_text())
    measured = {(one["row"], one["contender"]): one for one in facts["measured"]}
    assert set(measured) == {
        (row, name) for row in ("noop", "latency") for name in ("ours", "process-pool")
    }
    for one in measured.values():
        assert one["trouble"] == ""
        assert len(one["looks"]) == 2
        assert all(len(values) == 2 and min(values) > 0 for values in one["samples"].values())
    verdicts = {one["text"]: one["verdict"] for one in facts["claims"]}
    assert verdicts["the same, against ray"] == "missing"
    assert verdicts["the same, against process-pool"] in ("aim", "must", "no")
    assert facts["size"] == "quick"
    assert {"python", "libzmq", "pyzmq", "grn-zmq"} <= set(facts["versions"])
    assert "process-pool" in done.stdout


def test_the_verb_measures_ours_alone(apart: Mapping[str, str]) -> None:
    done = run("grn", "bench", "--quick", "--only", "payload", "--json", environment=apart)

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [one["contender"] for one in facts["measured"]] == ["ours", "echo"]
    assert {one["verdict"] for one in facts["claims"]} <= {"aim", "must", "no", ""}


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_ended_leaves_nothing(
    apart: Mapping[str, str], signum: int, status: int
) -> None:
    mark = apart[MARK]
    with Running("grn", "bench", "--only", "noop", environment=apart) as running:
        until(
            lambda: any(
                "grn_zmq.broker" in one for one in processes_marked(MARK, mark).values()
            )
        )

        os.kill(running.pid, signum)

        assert running.ended(30) == status
        assert TRACEBACK not in running.err


def test_a_child_that_fails_or_hangs_is_told_and_its_tree_ended(
    apart: Mapping[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_CHILDREN],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        env={**os.environ, **apart},
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        ["failed with status 1: ValueError: no such", {}],
        ["not done within 1 s", {"rate": [2.0]}],
    ]
