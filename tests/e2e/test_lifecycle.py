"""Limits and retries as a user writes them, and what they get when one is reached."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.cli.scripts import run, script
from tests.e2e.scripts import all_leases_are_freed, is_gone
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

LONG_S = 20 * PATIENCE


def note(directory: str, text: object) -> None:
    with open(f"{directory}/starts", "a") as starts:
        starts.write(f"{text}\n")


def starts(directory: Path) -> list[str]:
    path = directory / "starts"
    return path.read_text().split() if path.exists() else []


@grn.job()
def sleeps(directory: str, seconds: float) -> str:
    note(directory, os.getpid())
    print("about to sleep", flush=True)
    time.sleep(seconds)
    return "slept"


@grn.job()
def fails_twice(directory: str, how: str) -> int:
    note(directory, "start")
    times = len(starts(Path(directory)))
    if times > 2:
        return times
    match how:
        case "exception":
            raise LookupError("not yet")
        case "exit":
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "time-limit":
            time.sleep(60)
    raise AssertionError(how)


def test_r72_a_job_that_runs_on_is_ended_and_its_lease_freed(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(grn.TimeLimitExceeded) as ended:
        sleeps.with_options(time_limit=1)(str(tmp_path), 60)

    assert time.monotonic() - started < 5 * PATIENCE
    assert isinstance(ended.value, TimeoutError)
    assert ended.value.last_lines.strip() == "about to sleep"
    assert "Its last lines:\n    about to sleep" in str(ended.value)
    all_leases_are_freed()
    is_gone(int(starts(tmp_path)[0]))


def test_p33_a_limit_holds_for_a_job_that_ignores_the_signal(tmp_path: Path) -> None:
    @grn.job(time_limit="1s", grace=0.5)
    def stubborn(directory: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note(directory, os.getpid())
        while True:
            time.sleep(0.1)

    started = time.monotonic()
    future = stubborn.submit(str(tmp_path))
    with pytest.raises(grn.TimeLimitExceeded):
        future.result(LONG_S)

    assert time.monotonic() - started < 8 * PATIENCE
    assert future.outcome is not None
    assert future.outcome.outcome == "timed-out"
    is_gone(int(starts(tmp_path)[0]), 1)


def test_p36_waiting_can_be_bounded_and_blocks_nobody(tmp_path: Path) -> None:
    sleeps(str(tmp_path), 0)  # measured: two run on each of the two devices
    busy = [sleeps.submit(str(tmp_path), 60) for _ in range(4)]
    until(lambda: all(one.running() for one in busy))
    try:
        started = time.monotonic()
        with pytest.raises(grn.WaitTimeout, match="was given up") as waited:
            grn.job(timeout=0.5, memory="900MiB")(print)("never")
        assert time.monotonic() - started < 5 * PATIENCE
        assert isinstance(waited.value, TimeoutError)
        with pytest.raises(grn.WaitTimeout):
            grn.job(inline=True, timeout=0.5, memory="900MiB")(print)("never")
        with pytest.raises(concurrent.futures.TimeoutError):
            busy[0].result(timeout=0.1)
    finally:
        for one in busy:
            one.cancel()
    all_leases_are_freed(15)


def test_p32_a_queued_job_never_starts_and_a_running_one_is_ended(tmp_path: Path) -> None:
    futures = [sleeps.submit(str(tmp_path), 60) for _ in range(8)]
    until(lambda: any(one.running() for one in futures))
    until(lambda: starts(tmp_path) != [])

    assert all(one.cancel() for one in futures)

    until(lambda: all(one.cancelled() for one in futures), 15)
    begun = starts(tmp_path)
    for pid in begun:
        is_gone(int(pid), 1)
    assert len(begun) < 8


@pytest.mark.parametrize("how", ["exception", "exit", "killed", "time-limit"])
def test_a_job_with_retries_is_run_again(tmp_path: Path, how: str) -> None:
    limit: dict[str, Any] = (
        {"time_limit": 1.5 * PATIENCE, "grace": 0} if how == "time-limit" else {}
    )
    future = fails_twice.with_options(retries=2, **limit).submit(str(tmp_path), how)

    assert future.result(LONG_S) == 3
    assert future.outcome is not None
    assert future.outcome.attempts == 3


def test_retries_can_be_kept_for_some_causes(tmp_path: Path) -> None:
    some = fails_twice.with_options(retries=2, retry_on=(KeyError, "killed"))

    with pytest.raises(LookupError, match="not yet"):
        some(str(tmp_path), "exception")
    assert starts(tmp_path) == ["start"]
    (tmp_path / "starts").unlink()
    assert some(str(tmp_path), "killed") == 3
    (tmp_path / "starts").unlink()
    bases = fails_twice.with_options(retries=2, retry_on=Exception)
    assert bases(str(tmp_path), "exception") == 3


def test_without_retries_a_job_runs_once(tmp_path: Path) -> None:
    with pytest.raises(grn.JobKilled):
        fails_twice(str(tmp_path), "killed")

    assert starts(tmp_path) == ["start"]


def test_p11_another_job_runs_at_once_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        fails_twice(str(tmp_path), "exception")

    started = time.monotonic()
    assert sleeps(str(tmp_path), 0) == "slept"
    assert time.monotonic() - started < 1.5 * PATIENCE


def test_grn_run_takes_limits_and_says_124() -> None:
    sleeping = f"{sys.executable} -c 'import time; time.sleep(60)'"

    done = run("grn-run", "--time", "1s", "--grace", "0", sleeping)

    assert done.returncode == 124
    assert b"was ended" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE])
def test_grn_run_runs_a_command_again_unless_its_input_is_used_up(
    tmp_path: Path, stdin: int
) -> None:
    code = (
        f'import os, sys; f = open("{tmp_path}/starts", "a"); f.write("x"); f.close(); '
        f'sys.exit(os.path.getsize("{tmp_path}/starts") < 3)'
    )

    done = subprocess.run(
        script("grn-run", "--retries", "2", f"{sys.executable} -c '{code}'"),
        stdin=stdin,
        capture_output=True,
        timeout=LONG_S,
    )

    again = stdin == subprocess.DEVNULL
    assert done.returncode == (0 if again else 1), done.stderr
    assert (tmp_path / "starts").read_text() == ("xxx" if again else "x")
    assert (b"is not run again" in done.stderr) != again


@pytest.mark.parametrize(
    "option", [("--time", "0"), ("--timeout", "soon"), ("--grace", "-1"), ("--retries", "x")]
)
def test_grn_run_names_an_option_that_makes_no_sense(option: tuple[str, str]) -> None:
    done = run("grn-run", *option, "echo never")

    assert done.returncode == 2
    assert option[0].encode() in done.stderr
    assert b"never" not in done.stdout


class HangsWhenOpened:
    """Unpickling it in any process but the job's own takes for ever."""

    def __init__(self, gate: str) -> None:
        self.gate = gate

    def __reduce__(self) -> tuple[Any, ...]:
        return wait_for, (self.gate,)


def wait_for(gate: str) -> str:
    while not os.path.exists(gate):
        time.sleep(0.01)
    return "opened at last"


def test_f34_a_value_that_hangs_when_opened_holds_up_nobody_else(tmp_path: Path) -> None:
    @grn.job()
    def hangs(gate: str) -> Any:
        return HangsWhenOpened(gate)

    gate = tmp_path / "gate"
    bad = [hangs.submit(str(gate)) for _ in range(2)]
    with pytest.raises(TimeoutError):
        bad[0].result(timeout=2)

    assert sleeps(str(tmp_path), 0) == "slept"
    other: list[str] = []
    thread = threading.Thread(target=lambda: other.append(sleeps(str(tmp_path), 0)))
    thread.start()
    thread.join(LONG_S)
    assert other == ["slept"]
    gate.touch()
    assert [one.result(LONG_S) for one in bad] == ["opened at last"] * 2


class EndsItsOpener:
    def __init__(self, ending: str) -> None:
        self.ending = ending

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"raise {self.ending}('at opening')",)


@grn.job()
def gives_bad(ending: str) -> object:
    return EndsItsOpener(ending)


@pytest.mark.parametrize("ending", ["SystemExit", "KeyboardInterrupt", "MemoryError"])
def test_f34_a_value_that_ends_its_opener_is_an_error_here(ending: str) -> None:
    with pytest.raises(grn.JobFailed, match="cannot be unpickled here"):
        gives_bad(ending)


class Odd(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot travel")


@grn.job()
def gives_odd(what: str) -> object:
    if what == "exception":
        raise Odd("its text")
    return threading.Lock()


def test_f33_what_cannot_be_pickled_is_told_as_text() -> None:
    with pytest.raises(grn.JobFailed, match="its text"):
        gives_odd("exception")
    with pytest.raises(grn.NotPicklable, match="the result"):
        gives_odd("result")
