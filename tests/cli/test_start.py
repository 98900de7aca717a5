"""`grn start`: what it says, how it ends, and that it never leaves anything behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from grn_zmq.discovery import Address, find_address, lock_holder
from grn_zmq.paths import Places, find_places
from tests.cli.scripts import (
    TRACEBACK,
    Running,
    any_alive,
    descendants,
    run,
    script,
    started,
)
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

HOST = ("--devices", "host:2x500MiB")
A_GPU = ("--devices", "nvml")


@pytest.fixture
def places() -> Places:
    return find_places(os.environ)


def the_address(places: Places) -> Address:
    address = find_address(places)
    assert address is not None
    return address


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_r75_start_says_what_it_manages_and_cleans_up_after_a_signal(
    gpus: FakeDriver, signum: int
) -> None:
    with started(*A_GPU) as server:
        lines = server.out.splitlines()
        below = descendants(server.pid)

        server.process.send_signal(signum)

        assert server.ended() == 0, server.said()
        assert lines[0].startswith("grn ")
        assert lines[1] == "Managing GPUs {0, 1}"
        assert "Cleaned up" in server.out.splitlines()[-1]
        assert TRACEBACK not in server.err
        assert len(below) == 4  # broker, fosterer, and a worker for each GPU
        assert not any_alive(below)


def test_r75_ctrl_c_reaches_the_whole_foreground_group_and_ends_it_in_order() -> None:
    with started(*HOST) as server:
        server.interrupt()

        assert server.ended() == 0
        assert TRACEBACK not in server.err
        assert "Cleaned up" in server.out


def test_a_closed_terminal_ends_a_foreground_start_with_all_it_started() -> None:
    terminal, side = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *script("grn", "start", *HOST)],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd="/",
    )
    os.close(side)
    said = b""
    while b"Ready in " not in said:
        said += os.read(terminal, 4096)
    below = descendants(process.pid)

    os.close(terminal)

    until(lambda: not any_alive(below), 15, lambda: f"left: {any_alive(below)}")
    process.wait(15 * PATIENCE)
    assert lock_holder(find_places(os.environ)) is None


def test_a_start_under_nohup_outlives_its_terminal(places: Places) -> None:
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"', *script("grn", "start", *HOST)]
    process = subprocess.Popen(ignoring, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    until(lambda: find_address(places), 20)
    list(iter(lambda: process.stdout and process.stdout.readline()[:5], b"Ready"))

    process.send_signal(signal.SIGHUP)
    answered = run("grn", "status")
    process.terminate()

    assert answered.returncode == 0, answered.stderr
    assert process.wait(20 * PATIENCE) == 0
    process.stdout.close()


def test_r76_p18_with_debug_each_request_grant_and_completion_is_logged() -> None:
    with started(*HOST, "--debug") as server:
        assert run("grn-run", "--type", "toy", "true").returncode == 0
        server.until_err("outcome=succeeded")

        of_the_job = [line for line in server.err.splitlines() if "type=toy" in line]

    request, grant, *_, completion = of_the_job
    assert " DEBUG " in request
    assert "accepted" in request
    assert "placed" in grant
    assert re.search(r"device=host:\d .*lease_bytes=[1-9]\d+", grant)
    assert re.search(r"ended .*device=host:\d .*peak_bytes=\d+", completion)


def test_r108_r76_each_log_line_has_time_level_process_and_module() -> None:
    with started(*HOST) as server:
        assert run("grn-run", "true").returncode == 0
        server.process.terminate()
        server.ended()
        lines = server.err.splitlines()

    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ +\S.* [\w.]+:\d+ \S"
    assert len(lines) > 5
    assert [line for line in lines if not re.match(form, line)] == []
    assert [line for line in lines if " DEBUG " in line] == []  # none without --debug


def test_r77_a_second_start_names_the_first_and_leaves_it_alone(places: Places) -> None:
    with started(*HOST):
        pid = the_address(places).pid

        second = run("grn-start", *HOST)
        detached = run("grn", "start", "--detach", *HOST)
        alone = run("grn-broker")

        for refused in (second, detached, alone):
            assert refused.returncode not in (0, None)
            assert f"pid {pid}".encode() in refused.stderr
            assert len(refused.stderr.splitlines()) == 1
        assert the_address(places).pid == pid
        assert run("grn", "status").returncode == 0


def test_r77_after_the_death_of_all_of_it_a_start_works(places: Places) -> None:
    with started(*HOST) as first:
        broker = the_address(places).pid
        others = {first.pid, *descendants(first.pid)} - {broker}
        os.kill(first.pid, signal.SIGSTOP)  # it would start again what dies
        # The broker first: if its supervisor dies before it, it cleans up after itself.
        for pid in (broker, *others):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first.ended()
        assert places.address.exists()  # stale, as are the sockets

        with started(*HOST) as second:
            assert the_address(places).pid in descendants(second.pid)
            assert run("grn-run", "true").returncode == 0


def test_r78_a_start_that_failed_leaves_nothing_and_the_next_one_succeeds(
    gpus: FakeDriver, places: Places
) -> None:
    gpus.no_driver()
    failed = run("grn", "start", *A_GPU)
    gpus.no_driver(False)

    assert failed.returncode != 0
    assert len(failed.stderr.splitlines()) == 1
    assert b"driver" in failed.stderr.lower()
    assert lock_holder(places) is None
    with started(*A_GPU):
        assert run("grn", "status").returncode == 0


def test_r79_the_address_is_written_only_once_the_sockets_are_bound(places: Places) -> None:
    with Running("grn", "start", *HOST) as server:
        until(lambda: places.address.exists(), 20, server.said)
        facts = json.loads(places.address.read_text())

        for name in ("clients", "workers"):
            assert Path(facts[name].removeprefix("ipc://")).is_socket()
        assert run("grn", "status").returncode == 0  # no option says where the broker is


def test_files_and_sockets_are_private(places: Places, home: Path) -> None:
    with started(*HOST):
        below = [places.directory, *places.directory.rglob("*")]
        modes = {path: path.lstat().st_mode for path in below}

    assert len(modes) >= 7
    assert [str(path) for path, mode in modes.items() if mode & 0o077] == []
    assert not places.clients_socket.exists()
    assert not places.address.exists()


def test_l09_a_slow_driver_is_waited_for(gpus: FakeDriver) -> None:
    gpus.init_delay(5)
    try:
        done = run("grn-run", "echo up")
    finally:
        gpus.init_delay(0)

    assert done.returncode == 0, done.stderr
    assert done.stdout == b"up\n"


def test_a_start_that_waits_for_a_slow_driver_ends_at_once_when_asked(
    gpus: FakeDriver,
) -> None:
    gpus.init_delay(60)
    try:
        with Running("grn", "start", *A_GPU) as server:
            until(lambda: descendants(server.pid), 10, server.said)
            server.until_out("grn ")
            below = descendants(server.pid)
            server.process.terminate()

            assert server.ended(10) == 0
            assert not any_alive(below)
    finally:
        gpus.init_delay(0)


def test_a_broken_pipe_for_a_log_does_not_end_the_broker() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        script("grn", "start", *HOST), stdout=subprocess.PIPE, stderr=writing, cwd="/"
    )
    os.close(writing)
    os.close(reading)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]

    done = run("grn-run", "true")
    process.terminate()

    assert said[-1].startswith(b"Ready")
    assert done.returncode == 0, done.stderr
    assert process.wait(20 * PATIENCE) == 0
    process.stdout.close()


def test_g01_g02_detach_returns_when_ready_and_stop_ends_it(places: Places, home: Path) -> None:
    begun = run("grn", "start", "--detach", *HOST)
    pid = the_address(places).supervisor_pid
    below = [pid, *descendants(pid)]
    session = os.getsid(pid)

    stopped = run("grn", "stop")

    assert begun.returncode == 0, begun.stderr
    assert b"Managing host devices" in begun.stdout
    assert f"pid {pid}".encode() in begun.stdout
    assert session == pid  # not ours: closing this terminal does not reach it
    (log,) = (home / "state" / "grn").glob("grn-*.log")
    assert log.stat().st_mode & 0o077 == 0
    assert "broker ready" in log.read_text()
    assert stopped.returncode == 0
    assert not any_alive(below)
    assert run("grn", "stop").returncode == 3


def test_g01_detach_reports_why_it_did_not_come_up() -> None:
    failed = run("grn", "start", "--detach", "--devices", "host:0")

    assert failed.returncode != 0
    assert len(failed.stderr.splitlines()) == 1
    assert b"host:0" in failed.stderr


def test_the_procfile_brings_up_broker_and_workers_and_ends_them(
    request: pytest.FixtureRequest, places: Places
) -> None:
    path = f"{script('grn')[0].rpartition('/')[0]}:{os.environ['PATH']}"
    procfile = request.config.rootpath / "Procfile"
    with Running(
        "honcho", "-f", str(procfile), "start", environment={"PATH": path, "NO_COLOR": "1"}
    ) as honcho:
        until(lambda: find_address(places), 20, honcho.said)
        done = run("grn-run", "echo hello")
        below = descendants(honcho.pid)

        honcho.process.terminate()

        honcho.ended()
        until(lambda: not any_alive(below), 15, honcho.said)
        assert done.stdout == b"hello\n", honcho.said()
        assert TRACEBACK not in honcho.out


def unsafe(places: Places) -> None:
    places.directory.mkdir(mode=0o700, exist_ok=True)
    places.directory.chmod(0o750)


def not_a_directory(places: Places) -> None:
    if places.directory.is_dir():
        places.directory.rename(places.directory.with_name("away"))
    places.directory.write_text("in the way")


@pytest.mark.parametrize(
    ("spoil", "words"), [(unsafe, "chmod 700"), (not_a_directory, "is not a directory")]
)
def test_a_place_that_is_not_ours_alone_is_refused_by_all(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    spoil: Callable[[Places], None],
    words: str,
) -> None:
    runtime = home / spoil.__name__
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    spoil(find_places(os.environ))

    for refused in (run("grn", "start", *HOST), run("grn", "ps"), run("grn-broker")):
        assert refused.returncode != 0
        assert len(refused.stderr.splitlines()) == 1, refused.stderr
        assert words.encode() in refused.stderr


def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    runtime = home / ("long" * 25)
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

    refused = run("grn", "start", *HOST)

    assert refused.returncode != 0
    assert b"XDG_RUNTIME_DIR to a shorter directory" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "environment", "named"),
    [
        (A_GPU, {"CUDA_VISIBLE_DEVICES": "7"}, "CUDA_VISIBLE_DEVICES"),
        (A_GPU, {"CUDA_VISIBLE_DEVICES": "zero"}, "CUDA_VISIBLE_DEVICES"),
        (("--devices", "nvml:5"), {}, "5"),
        (("--devices", "potato"), {}, "potato"),
        (("--devices", "host:4xpotato"), {}, "potato"),
        (("--max-jobs", "0"), {}, "--max-jobs"),
        (("--frobnicate",), {}, "--frobnicate"),
        (("stray",), {}, "stray"),
    ],
)
def test_a_bad_request_gets_one_clear_line_and_starts_nothing(
    gpus: FakeDriver,
    places: Places,
    words: tuple[str, ...],
    environment: dict[str, str],
    named: str,
) -> None:
    refused = run("grn", "start", *words, environment=environment)

    said = refused.stderr.decode().splitlines()
    assert refused.returncode != 0
    assert named in said[-1]
    assert [
        line for line in said[:-1] if not line.startswith(("Usage:", "Try ")) and line
    ] == []
    assert lock_holder(places) is None
