"""Forked job processes: what they share with their zygote is not theirs, what they copy is."""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import payload, wire
from grn_zmq.records import Result
from tests.builders import MIB
from tests.waiting import until
from tests.workers.stage import Bench
from tests.workers.warming import install

pytestmark = pytest.mark.e2e

HELD_MIB = 120
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def bench(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A worker whose job processes are forked with 120 MiB in a module."""
    with pytest.MonkeyPatch.context() as patch:
        content = f"held = bytearray(b'x') * {HELD_MIB << 20}"
        patch.syspath_prepend(install(tmp_path_factory.mktemp("lib"), "heavy", content))
        bench = Bench(tmp_path_factory.mktemp("orders"))
        until(lambda: payload.load_value(run(bench, "load").payload))
        yield bench
        bench.close()


def run(bench: Bench, job: str, *args: object) -> Result:
    return bench.run(JOBS[job], *args, job_type="heavy", reuse=False)


def jobs() -> dict[str, Callable[..., Any]]:
    """Functions that travel by value: no module of the tests is loaded for them."""

    def load() -> bool:
        warm = "heavy" in sys.modules
        importlib.import_module("heavy")
        return warm

    def take(mib: int) -> bytearray:
        return bytearray(b"y") * (mib << 20)

    def dirty(mib: int) -> None:
        for at in range(0, mib << 20, PAGE):
            sys.modules["heavy"].held[at] = 1

    def then_wait(function: Callable[[int], object], mib: int, path: str) -> None:
        kept = function(mib)
        with open(path, "w") as note:
            note.write(str(os.getpid()))
        time.sleep(600)
        del kept

    return {
        "load": load,
        "nothing": lambda mib: None,
        "take": lambda mib: bool(take(mib)),
        "dirty": dirty,
        "then_wait": then_wait,
    }


JOBS = jobs()
CASES = [("nothing", 0), ("take", 200), ("dirty", 60)]


@pytest.mark.parametrize(("job", "mib"), CASES)
def test_a_forked_job_is_measured_at_what_it_takes_or_copies(
    bench: Bench, job: str, mib: int
) -> None:
    result = run(bench, job, mib)

    assert result.outcome == "succeeded", result.error_text
    assert mib - 4 <= result.peak_bytes / MIB <= mib + 12


@pytest.mark.parametrize(("job", "mib"), CASES)
def test_a_forked_job_that_is_killed_is_measured_too(
    bench: Bench, tmp_path: Path, job: str, mib: int
) -> None:
    note = tmp_path / "pid"
    arguments = (JOBS[job], mib, str(note))
    bench.give(JOBS["then_wait"], *arguments, job_type="heavy", reuse=False)
    until(note.exists)
    while True:  # until it was looked at
        report = bench.broker.next(wire.Report)
        if any(use.used_bytes >= (mib - 4) * MIB for use in report.uses):
            break
    os.kill(int(note.read_text()), signal.SIGKILL)
    result = bench.broker.result()
    bench.broker.recorded(result)

    assert (result.outcome, result.signal) == ("killed", signal.SIGKILL)
    assert mib - 4 <= result.peak_bytes / MIB <= mib + 12


def test_a_command_is_forked_without_the_imports_of_calls(bench: Bench) -> None:
    words = ("sh", "-c", "grep -q grn_zmq.zygote /proc/$PPID/cmdline")
    results: list[Result] = []

    def forked() -> bool:
        results.append(bench.run_command(*words, job_type="heavy"))
        return results[-1].outcome == "succeeded"

    until(forked)

    assert results[-1].peak_bytes < 40 * MIB
