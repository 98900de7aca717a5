"""What a worker can rely on, however its job processes were started."""

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grn_zmq import keeper
from grn_zmq.context import Context
from tests.workers.launching import (
    MIB,
    Start,
    a_call,
    a_command,
    gone,
    leave_processes,
    outcome_of,
    output_of,
    start,
    until,
    value_of,
    wait_for,
)
from workers.jobevents import Event, Exited, Outcome, Output
from workers.launcher import LaunchError, become_subreaper

__all__ = ["start"]  # a fixture

pytestmark = pytest.mark.e2e


def test_a_function_with_a_closure_runs_elsewhere_and_its_value_comes_back_p01_p02(
    start: Start,
) -> None:
    offset = 40
    process = start()

    value, pid = value_of(process, lambda x: (x + offset, os.getpid()), 2)

    assert (value, pid) == (42, process.pid)
    assert process.baseline_bytes > MIB


def test_sys_exit_keeps_its_status_and_the_process_r33(start: Start) -> None:
    process = start()

    codes = (3, None, "a reason")
    statuses = [outcome_of(process, sys.exit, code).exit_status for code in codes]

    assert statuses == [3, 0, 1]


@pytest.mark.parametrize(
    ("function", "argument", "status", "signum"),
    [
        (os._exit, 3, 3, None),
        (signal.raise_signal, signal.SIGSEGV, None, signal.SIGSEGV),
        (signal.raise_signal, signal.SIGKILL, None, signal.SIGKILL),
    ],
)
def test_an_end_without_an_outcome_is_told_by_status_or_signal_r33(
    start: Start,
    function: Callable[[int], object],
    argument: int,
    status: int | None,
    signum: int | None,
) -> None:
    process = start()

    process.feed(a_call(function, argument))
    exited = until(process, Exited)

    assert (exited.status, exited.signal, exited.left_over) == (status, signum, 0)
    assert exited.max_rss_bytes > MIB


def test_output_is_live_and_stderr_is_apart_p12_p29(start: Start, tmp_path: Path) -> None:
    def talk(release: str) -> None:
        print("out")
        print("err", file=sys.stderr)
        while not os.path.exists(release):
            time.sleep(0.005)
        os.system("echo from a child")

    release, own_stdout, process = tmp_path / "release", os.fstat(1), start()
    process.feed(a_call(talk, str(release)))
    seen: list[Event] = []
    while (output_of(seen, "stdout"), output_of(seen, "stderr")) != (b"out\n", b"err\n"):
        seen.append(until(process, Output))

    assert not release.exists()
    release.touch()
    until(process, Outcome, before=seen)
    assert output_of(seen, "stdout") == b"out\nfrom a child\n"
    assert os.fstat(1) == own_stdout


def test_a_megabyte_printed_last_is_there_before_the_outcome_p12(start: Start) -> None:
    process, seen = start(), list[Event]()
    process.feed(a_call(lambda: print("x" * 3 * MIB)))
    until(process, Outcome, before=seen)

    assert len(output_of(seen, "stdout")) == 3 * MIB + 1
    assert max(len(e.data) for e in seen if isinstance(e, Output)) <= 256 * 1024


def test_a_process_that_is_asked_to_end_runs_its_atexit_handlers(
    start: Start, tmp_path: Path
) -> None:
    def promise(path: str) -> None:
        import atexit

        atexit.register(Path(path).touch)

    process = start()
    value_of(process, promise, str(tmp_path / "kept"))

    process.close()

    assert until(process, Exited).status == 0
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    "function",
    [
        lambda: os.chdir("/"),
        lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start(),
        lambda: setattr(sys, "stdout", sys.stderr),
        lambda: os.close(1),
        lambda: subprocess.Popen(["sleep", "60"]) and None,
    ],
)
def test_a_process_that_was_changed_is_not_clean(
    start: Start, function: Callable[[], object]
) -> None:
    outcome = outcome_of(start(), function)

    assert (outcome.outcome, outcome.clean) == ("succeeded", False)


def test_what_a_job_left_running_is_swept_when_it_ends_p14(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    assert outcome_of(process, leave_processes, str(tmp_path)).outcome == "succeeded"
    pids = [int(name) for name in os.listdir(tmp_path)]

    process.close()
    exited = until(process, Exited)

    assert exited.left_over >= 2
    assert all(gone(pid) for pid in pids)


def test_a_stopped_job_that_ignores_term_is_killed_with_its_tree(
    start: Start, tmp_path: Path
) -> None:
    def hold_out(directory: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        leave_processes(directory)
        print("ready")
        os.kill(os.getpid(), signal.SIGSTOP)

    process = start()
    process.feed(a_call(hold_out, str(tmp_path)))
    until(process, Output)
    process.signal(signal.SIGTERM)
    process.kill()

    assert until(process, Exited).signal == signal.SIGKILL
    assert all(gone(int(name)) for name in os.listdir(tmp_path))


def test_a_signal_reaches_the_jobs_process_group(start: Start) -> None:
    process = start()
    process.feed(a_command("sh", "-c", "echo ready; sleep 600; echo late"))
    until(process, Output)

    process.signal(signal.SIGTERM)

    assert until(process, Exited).signal == signal.SIGTERM


def test_killing_the_keeper_leaves_nothing_alive(start: Start, tmp_path: Path) -> None:
    become_subreaper()
    try:
        process = start()
        process.feed(a_call(leave_processes, str(tmp_path)))
        until(process, Outcome)
        os.kill(process.keeper_pid, signal.SIGKILL)
        exited = until(process, Exited)
    finally:
        keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 0)

    assert (exited.status, exited.signal) == (None, signal.SIGKILL)
    assert exited.left_over >= 2
    assert process.pid is not None
    assert all(gone(pid) for pid in (process.pid, *map(int, os.listdir(tmp_path))))


WORKER = """
import os, select, sys, time
sys.path.insert(0, sys.argv[1])
import launching
from grn_zmq.context import Context
from grn_zmq.keeper import descendants
from workers.launcher import ExecLauncher, become_subreaper
from workers.warmth import ZygoteLauncher
become_subreaper()
launcher, context = ExecLauncher(), Context.capture()
if sys.argv[3] == "forked":
    launcher = ZygoteLauncher()
    launching.warm_up(launcher, context, {})
process = launcher.launch(context, {}, "type")
assert process.forked == (sys.argv[3] == "forked")
process.feed(launching.a_call(launching.leave_processes, sys.argv[2]))
launching.until(process, launching.Outcome)
process.feed(launching.a_call(time.sleep, 600))
print(process.keeper_pid, process.pid, *descendants(os.getpid()), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["executed", "forked"])
def test_killing_the_worker_leaves_nothing_alive(tmp_path: Path, how: str) -> None:
    here = Path(__file__)
    words = [sys.executable, "-c", WORKER, str(here.parent), str(tmp_path), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=here.parents[2]) as worker:
        assert worker.stdout is not None
        pids = [int(word) for word in worker.stdout.readline().split()]
        pids += [int(name) for name in os.listdir(tmp_path)]
        worker.kill()

    assert len(set(pids)) >= (6 if how == "forked" else 4)
    wait_for(lambda: all(gone(pid) for pid in pids))


def test_a_hundred_jobs_leave_no_zombie_p24(start: Start) -> None:
    children = list[list[int]]()
    for _ in range(100):
        process = start()
        process.feed(a_command("true"))
        assert until(process, Exited).status == 0
        process.destroy()
        children.append(keeper.children_of(os.getpid()))

    assert max(map(len, children)) <= 3


@pytest.mark.parametrize(
    ("words", "status", "out", "err"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 5"], 5, b"out\n", b"err\n"),
        (["no-such-command"], 127, b"", b"grn: no-such-command: command not found\n"),
        (["/etc"], 126, b"", b"grn: /etc: cannot be run: [Errno 13] Permission denied\n"),
    ],
)
def test_a_command_ends_with_its_own_status(
    start: Start, words: list[str], status: int, out: bytes, err: bytes
) -> None:
    process, seen = start(), list[Event]()

    process.feed(a_command(*words))

    assert until(process, Exited, before=seen).status == status
    assert (output_of(seen, "stdout"), output_of(seen, "stderr")) == (out, err)


def test_a_command_reads_its_fifo(start: Start, tmp_path: Path) -> None:
    fifo, process, seen = tmp_path / "stdin", start(), list[Event]()
    os.mkfifo(fifo)
    process.feed(a_command("cat", stdin=str(fifo)))
    fifo.write_text("through the pipe")

    assert until(process, Exited, before=seen).status == 0
    assert output_of(seen, "stdout") == b"through the pipe"


def test_a_fork_that_comes_back_from_the_function_does_not_answer(start: Start) -> None:
    def split() -> int:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return pid

    process = start()

    assert value_of(process, split) > 0
    assert value_of(process, lambda: "the next") == "the next"


def test_an_interpreter_that_is_not_there_is_named(start: Start) -> None:
    context = dataclasses.replace(Context.capture(), interpreter="/nowhere/python")

    with pytest.raises(LaunchError, match="'/nowhere/python': No such file or directory"):
        start(context)


def test_a_worker_without_descriptors_says_so_and_leaks_none(start: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    context, used = Context.capture(), set(map(int, os.listdir("/proc/self/fd")))
    two_more = [number for number in range(len(used) + 3) if number not in used][2]
    resource.setrlimit(resource.RLIMIT_NOFILE, (two_more, hard))
    try:
        with pytest.raises(LaunchError, match="Too many open files"):
            start(context)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_interpreter_that_fails_at_its_start_is_quoted(start: Start) -> None:
    process = start(
        dataclasses.replace(Context.capture(), interpreter=sys.executable, flags=("-Z",))
    )
    process.feed(a_call(print))

    assert "-Z" in until(process, Exited).error_text


def test_a_job_process_that_is_destroyed_early_dies(start: Start, tmp_path: Path) -> None:
    process = start()
    assert outcome_of(process, leave_processes, str(tmp_path)).outcome == "succeeded"

    process.destroy()

    assert all(gone(int(name)) for name in os.listdir(tmp_path))
