"""Clients whose broker dies under them: each goes on by itself, and nothing runs twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.scripts import broker_pid, running_script, write_script
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("server")]

LONG_S = 30 * PATIENCE


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[grn.Server]:
    with grn.start("host:2x1000MiB", max_jobs=4, debug=True) as server:
        (home / "gate").touch()
        waits(str(home))  # measured: from here on several run beside each other
        yield server
        forget_client()


@grn.job()
def waits(directory: str, value: int = 0) -> int:
    with open(f"{directory}/starts", "a") as starts:
        starts.write(f"{value}\n")
    while not os.path.exists(f"{directory}/gate"):
        time.sleep(0.01)
    return value


@grn.job()
def add(a: int, b: int) -> int:
    return a + b


def starts(directory: Path) -> list[str]:
    path = directory / "starts"
    return sorted(path.read_text().split()) if path.exists() else []


def kill_broker() -> None:
    """Kill it, and wait until the next one is there."""
    before = broker_pid()
    os.kill(before, signal.SIGKILL)
    until(lambda: next_broker(before), 20)


def next_broker(before: int) -> bool:
    try:
        return broker_pid() != before
    except AssertionError:
        return False


def test_r99_waiters_resume_with_the_next_broker(tmp_path: Path) -> None:
    running = [waits.submit(str(tmp_path), number) for number in range(3)]
    spawned = waits.spawn(str(tmp_path), 3)
    until(lambda: starts(tmp_path) == ["0", "1", "2", "3"], 20)
    attached = grn.attach(spawned)

    kill_broker()
    (tmp_path / "gate").touch()

    assert [one.result(LONG_S) for one in [*running, attached]] == [0, 1, 2, 3]
    assert starts(tmp_path) == ["0", "1", "2", "3"]


def test_calls_go_on_while_the_broker_dies_again_and_again() -> None:
    done: list[int] = []

    def work() -> None:
        for number in range(40):
            done.append(add(number, 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        kill_broker()
    for thread in threads:
        thread.join(2 * LONG_S)

    assert sorted(done) == sorted(list(range(1, 41)) * 4)


def test_what_is_submitted_while_nobody_is_there_runs(tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    assert add(1, 1) == 2

    os.kill(broker_pid(), signal.SIGKILL)
    futures = [waits.submit(str(tmp_path), number) for number in range(20)]

    assert [one.result(LONG_S) for one in futures] == list(range(20))
    assert len(starts(tmp_path)) == 20


def test_a_cancel_reaches_the_next_broker(tmp_path: Path) -> None:
    future = waits.submit(str(tmp_path))
    until(lambda: starts(tmp_path) == ["0"])

    os.kill(broker_pid(), signal.SIGKILL)

    assert future.cancel()
    until(future.cancelled, 20)


def test_r98_an_inline_job_gets_its_value_and_gives_its_lease_back() -> None:
    @grn.job(inline=True)
    def survives() -> str:
        kill_broker()
        return "its value"

    assert survives() == "its value"
    assert add(1, 2) == 3


def test_an_executor_goes_on(tmp_path: Path) -> None:
    with grn.Executor(max_workers=2) as pool:
        futures = [pool.submit(pow, 2, number) for number in range(20)]
        kill_broker()

        assert [one.result(LONG_S) for one in futures] == [2**number for number in range(20)]


def test_f49_ctrl_c_without_a_broker_leaves_at_once(server: grn.Server, tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "f.py",
        """
        import pathlib, sys, time

        @grn.job()
        def f(directory):
            pathlib.Path(directory, "started").touch()
            time.sleep(60)

        f(sys.argv[1])
        """,
    )
    with running_script(script, tmp_path) as process:
        until((tmp_path / "started").exists, 20)
        os.kill(server.pid, signal.SIGSTOP)  # nobody starts the next one
        try:
            os.kill(broker_pid(), signal.SIGKILL)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LONG_S)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    assert time.monotonic() - started < 8 * PATIENCE
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1, err
    assert "During handling" not in err


def test_f45_a_client_killed_right_after_sending_has_a_job_or_none(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "client.submit.sent").write_text("kill")
    script = write_script(
        tmp_path / "f.py",
        """
        import sys
        from grn_zmq import failpoints
        from tests.e2e.test_reconnecting import waits

        failpoints.arm(sys.argv[2])
        waits.spawn(sys.argv[1], 7)
        """,
    )
    with running_script(script, tmp_path, orders) as process:
        process.communicate(timeout=LONG_S)
    (tmp_path / "gate").touch()

    assert process.returncode == -signal.SIGKILL
    assert len(starts(tmp_path)) <= 1


def test_f50_a_forked_child_has_a_session_of_its_own() -> None:
    code = """
import os, sys
import grn_zmq as grn
from tests.e2e.test_reconnecting import add

assert add(1, 1) == 2
future = add.submit(2, 2)
child = os.fork()
if not child:
    from grn_zmq.client import this_client
    assert add(3, 3) == 6
    assert this_client().session
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
assert future.result() == 4
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=2 * LONG_S
    )

    assert done.returncode == 0, done.stderr


def test_f51_eight_threads_share_one_client() -> None:
    ids: list[str] = []

    def submit() -> None:
        futures = [add.submit(number, 0) for number in range(25)]
        assert [one.result(LONG_S) for one in futures] == list(range(25))
        ids.extend(one.job_id for one in futures)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LONG_S)

    assert len(set(ids)) == len(ids) == 200
