"""Signals and ends of users' scripts: Ctrl-C, SIGTERM, exits with jobs still unfinished."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.scripts import (
    all_leases_are_freed,
    broker_pid,
    end_of,
    is_gone,
    run_script,
    running_script,
    stopped,
    write_script,
)
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

HEAD = """
import os, signal, sys, time

@grn.job()
def waits(directory):
    with open(directory + "/draft", "w") as file:
        file.write(str(os.getpid()))
    os.rename(directory + "/draft", directory + "/pid")
    try:
        while not os.path.exists(directory + "/gate"):
            time.sleep(0.01)
        open(directory + "/whole", "w").close()
        return "whole"
    except KeyboardInterrupt:
        open(directory + "/interrupted", "w").close()
        raise

def until_begun():
    while not os.path.exists(sys.argv[1] + "/pid"):
        time.sleep(0.01)

"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def begun(directory: Path) -> int:
    note = directory / "pid"
    until(lambda: note.exists() and note.read_text())
    return int(note.read_text())


def test_r35_sigterm_ends_the_client_and_frees_its_lease(script: Path) -> None:
    write_script(script, HEAD + "waits(sys.argv[1])")
    with running_script(script, script.parent) as process:
        pid = begun(script.parent)

        process.terminate()
        status, _ = end_of(process, 2)

    assert status == -signal.SIGTERM  # which shells call 143
    is_gone(pid, 2)
    all_leases_are_freed()


def test_r36_ctrl_c_reaches_the_job_and_the_status_is_130(script: Path) -> None:
    write_script(script, HEAD + "waits(sys.argv[1])")
    with running_script(script, script.parent) as process:
        pid = begun(script.parent)

        process.send_signal(signal.SIGINT)
        status, err = end_of(process, 6)

    assert status == -signal.SIGINT  # which shells call 130
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert (script.parent / "interrupted").exists()
    is_gone(pid, 2)
    all_leases_are_freed()


def test_r36_a_job_that_catches_ctrl_c_may_clean_up_and_the_caller_goes_on(
    script: Path,
) -> None:
    write_script(
        script,
        HEAD
        + "try:\n"
        + "    waits(sys.argv[1])\n"
        + "except KeyboardInterrupt:\n"
        + "    open(sys.argv[1] + '/gate', 'w').close()\n"
        + "    print(waits(sys.argv[1]))\n",
    )
    with running_script(script, script.parent) as process:
        begun(script.parent)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10 * PATIENCE)

    assert out == "whole\n", err
    assert process.returncode == 0


def test_an_exception_from_a_signal_handler_ends_the_job_it_waited_for(script: Path) -> None:
    write_script(
        script,
        HEAD
        + "def alarm(*_): raise TimeoutError('too long')\n"
        + "signal.signal(signal.SIGALRM, alarm)\n"
        + "try:\n"
        + "    signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
        + "    waits(sys.argv[1])\n"
        + "except TimeoutError as error:\n"
        + "    print(error, flush=True)\n"
        + "    sys.stdin.read()\n",
    )
    with running_script(script, script.parent) as process:
        pid = begun(script.parent)
        assert process.stdout is not None
        assert process.stdout.readline() == "too long\n"
        is_gone(pid)
        all_leases_are_freed()


def test_at_a_normal_end_submitted_jobs_are_waited_for(script: Path) -> None:
    write_script(script, HEAD + "waits.submit(sys.argv[1])\nprint('last line', flush=True)")
    with running_script(script, script.parent) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "last line\n"
        begun(script.parent)
        assert process.poll() is None
        (script.parent / "gate").touch()
        status, err = end_of(process, 10)

    assert (status, err) == (0, "")
    assert (script.parent / "whole").exists()


def test_after_an_uncaught_exception_submitted_jobs_are_cancelled(script: Path) -> None:
    ends = "future = waits.submit(sys.argv[1])\nuntil_begun()\nraise LookupError('mine')"
    write_script(script, HEAD + ends)

    done = run_script(script, script.parent)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("LookupError: mine")
    is_gone(begun(script.parent))
    all_leases_are_freed()
    assert not (script.parent / "whole").exists()


def test_sys_exit_keeps_its_status_and_waits_too(script: Path) -> None:
    (script.parent / "gate").touch()
    write_script(script, HEAD + "waits.submit(sys.argv[1])\nsys.exit(7)")

    done = run_script(script, script.parent)

    assert (done.returncode, done.stderr) == (7, "")
    assert (script.parent / "whole").exists()


@pytest.mark.parametrize("waits_for", ["a job", "a lease", "the broker"])
def test_l05_a_client_of_a_stopped_broker_ends_on_sigterm(script: Path, waits_for: str) -> None:
    body = {
        "a job": "waits(sys.argv[1])",
        "a lease": "grn.job(inline=True)(waits.grn_function)(sys.argv[1])",
        "the broker": "open(sys.argv[1] + '/pid', 'w').write('1')\nwaits(sys.argv[1])",
    }[waits_for]
    write_script(script, HEAD + body)
    with running_script(script, script.parent) as process:
        if waits_for != "the broker":
            begun(script.parent)
        with stopped(broker_pid()):
            begun(script.parent)
            process.terminate()
            status, _ = end_of(process, 2)

    assert status == -signal.SIGTERM
    all_leases_are_freed()


@pytest.mark.parametrize(
    "body",
    [
        "f = waits.submit(sys.argv[1])\nuntil_begun()\nprint('go', flush=True)\n"
        "sys.stdin.readline()\nraise LookupError('mine')",
        "print('go', flush=True)\nsys.stdin.readline()\nwaits(sys.argv[1])",
    ],
    ids=["after an exception", "while connecting, by Ctrl-C"],
)
def test_l05_nothing_hangs_at_the_end_while_the_broker_is_stopped(
    script: Path, body: str
) -> None:
    write_script(script, HEAD + body)
    with running_script(script, script.parent) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "go\n"
        with stopped(broker_pid()):
            process.stdin.write("\n")
            process.stdin.flush()
            if "raise" not in body:
                until(lambda: threads_of(process.pid) > 1)
                process.send_signal(signal.SIGINT)
            status, err = end_of(process, 4)

    assert status == (1 if "raise" in body else -signal.SIGINT), err
    all_leases_are_freed()


def test_l05_ctrl_c_ends_a_call_while_the_broker_is_stopped(script: Path) -> None:
    write_script(script, HEAD + "waits(sys.argv[1])")
    with running_script(script, script.parent) as process:
        begun(script.parent)
        with stopped(broker_pid()):
            process.send_signal(signal.SIGINT)
            status, _ = end_of(process, 4)

    assert status == -signal.SIGINT
    all_leases_are_freed()


def threads_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))
