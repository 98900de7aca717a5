"""`grn run` when a command runs out of memory: run again, or its own status and a report."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.paths import find_places
from tests.cli.scripts import Running, run
from tests.conftest import forget_client
from tests.waiting import until

pytestmark = pytest.mark.e2e

# The first attempt fails as numpy or Python itself would; it tells what it got to read.
FAILS_ONCE = """
import os, sys
attempt = os.environ["GRN_ATTEMPT"]
print(attempt, repr(sys.stdin.read()), flush=True)
held = bytearray(30 << 20)
held[::4096] = b"1" * len(held[::4096])
if attempt == "1":
    raise MemoryError("no more")
"""


@pytest.fixture(scope="module")
def neighbour(home: Path) -> Iterator[None]:
    """One device on which a job runs already: whoever fails here was not alone."""
    mark = home / "runs"
    with grn.start("host:1x1000MiB", max_jobs=4, debug=True):
        for known in ("neighbour", "fails once"):
            assert run("grn-run", "--type", known, "true").returncode == 0
        line = f"sh -c 'touch {mark}; exec sleep 600'"
        with Running("grn-run", "--type", "neighbour", line) as running:
            until(mark.exists, 20, running.said)
            yield
        forget_client()


def command(*options: str) -> list[str]:
    return ["--type", "fails once", *options, "--", sys.executable, "-c", FAILS_ONCE]


def inputs() -> list[Path]:
    return list(find_places(os.environ).directory.glob("stdin-*"))


@pytest.mark.usefixtures("neighbour")
def test_r54_a_command_that_ran_out_of_memory_is_run_again_with_an_empty_stdin() -> None:
    before = inputs()
    with Running("grn-run", *command()) as running:  # its stdin is /dev/null
        assert running.ended() == 0, running.said()

        assert running.out == "1 ''\n2 ''\n"
    assert inputs() == before


@pytest.mark.usefixtures("neighbour")
def test_a_command_that_was_given_data_is_not_run_again_without_it() -> None:
    done = run("grn-run", *command(), stdin=b"data")

    assert (done.returncode, done.stdout) == (1, b"1 'data'\n")
    assert b"grn: fails once ran out of memory" in done.stderr


@pytest.mark.usefixtures("neighbour")
def test_a_command_is_not_run_again_if_that_is_not_wanted_and_keeps_its_status() -> None:
    words, wanted = command("--oom-retries", "0"), {"GRN_REPORT": "1"}
    with Running("grn-run", *words, environment=wanted) as running:
        assert running.ended() == 1

        assert running.out == "1 ''\n"
        assert running.err.count("ran out of memory") == 1
