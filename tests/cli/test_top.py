"""`grn top` on a real terminal, with a real broker; and what it prints without a terminal."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.cli.asking import ask
from grn_zmq.starting import running_pid
from grn_zmq.wire import Acted, Pause
from tests.cli.screens import Screen
from tests.cli.scripts import Running, run, script
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

COMMAND = "sh -c 'echo printed by $0; echo and more >&2; exec sleep 600'"


@pytest.fixture(scope="module")
def jobs(small_server: grn.Server) -> Iterator[Running]:
    """Four jobs run, two on each device; two wait for a place."""
    commands = [f"{COMMAND} {name}" for name in "abcdef"]
    with Running("grn-run", "--type", "toy", "--memory", "10MiB", *commands) as running:
        until(lambda: facts()["running"] == 4, 20, running.said)
        until(lambda: facts()["queued"] == 2, 20, running.said)
        yield running


@pytest.fixture
def screen(jobs: Running) -> Iterator[Screen]:
    with Screen("grn", "top") as screen:
        screen.until("4 running  2 queued")
        yield screen


def facts(*words: str) -> Any:
    done = run("grn", "top", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def chosen(screen: Screen) -> str:
    return next((line for line in screen.lines if line.startswith(">")), "")


def test_g46_a_terminal_view_lists_workers_and_jobs_and_is_left_with_q(screen: Screen) -> None:
    screen.until("q quit")
    lines = screen.lines
    assert [line.split()[0] for line in lines[2:4]] == ["host:0", "host:1"]
    assert [line.split()[-1] for line in lines[2:4]] == ["2/2", "2/2"]
    assert lines[4].split() == ["█", "used", "░", "leased", "×", "others", "·", "free"]
    assert sum(" running " in line for line in lines[6:]) == 4
    assert sum(" queued " in line and "waiting for" in line for line in lines[6:]) == 2
    assert chosen(screen)

    screen.press(b"q")

    assert screen.ended() == 0
    assert screen.is_given_back()


def test_run_times_go_on_while_one_watches(screen: Screen) -> None:
    before = screen.lines[6]

    until(lambda: screen.lines[6] != before, 10, screen.said)

    assert before.split()[:3] == screen.lines[6].split()[:3]
    assert screen.raw.count(b"\x1b[2J") <= 2, "the whole screen is not drawn anew"


def test_keys_move_and_the_screen_follows_the_size_of_its_window(screen: Screen) -> None:
    first = chosen(screen).split()[1]
    screen.press(b"j\x1b[B")
    until(lambda: chosen(screen).split()[1] == str(int(first) + 2), why=screen.said)
    screen.press(b"\x1b[F")
    until(lambda: chosen(screen).split()[1] == str(int(first) + 5), why=screen.said)

    screen.resize(60, 14)

    until(
        lambda: len(screen.lines) == 14 and screen.lines[13].startswith("↑↓"), why=screen.said
    )
    assert chosen(screen).split()[1] == str(int(first) + 5)
    screen.press(b"?")
    screen.until("any key: back")
    screen.press(b"\x1b")
    screen.until("DEVICE")


def test_a_log_is_followed_and_left(screen: Screen) -> None:
    screen.press(b"l")
    screen.until("printed by a")
    screen.until("and more")

    screen.press(b"\x1b")

    screen.until("2 queued")


def test_the_queue_is_paused_and_goes_on(screen: Screen) -> None:
    screen.press(b"p")
    screen.until("the queue is paused")
    screen.until("queued  ")
    assert facts()["paused"] is True

    screen.press(b"p")

    screen.until("the queue goes on")
    screen.until_gone("queue paused")
    assert facts()["paused"] is False


def test_a_waiting_job_is_held_and_released_and_a_running_one_is_not(screen: Screen) -> None:
    screen.press(b"h")
    screen.until("only jobs that wait can be held")

    screen.press(b"\x1b[F")
    until(lambda: " queued " in chosen(screen), why=screen.said)
    screen.press(b"h")
    until(lambda: " held " in chosen(screen), why=screen.said)
    screen.press(b"h")

    until(lambda: " queued " in chosen(screen), why=screen.said)


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
)
def test_a_signal_ends_the_view_and_gives_the_terminal_back(
    screen: Screen, signum: int, status: int
) -> None:
    screen.process.send_signal(signum)

    assert screen.ended() == status
    assert screen.is_given_back()


def test_ctrl_c_ends_the_view(screen: Screen) -> None:
    screen.press(b"\x03")

    assert screen.ended() == 130
    assert screen.is_given_back()


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(screen: Screen) -> None:
    screen.press(b"\x1a")
    until(screen.is_given_back, why=screen.said)

    screen.process.send_signal(signal.SIGCONT)

    screen.until("4 running")
    assert screen.in_other_screen


def test_a_terminal_that_is_closed_ends_the_view(jobs: Running) -> None:
    with Screen("grn", "top") as screen:
        screen.until("4 running")

        screen.hang_up()

        assert screen.process.wait(20 * PATIENCE) in (0, 129)


@pytest.mark.parametrize(("no_colour", "coloured"), [("1", False), ("", True)])
def test_colours_are_left_out_on_request(jobs: Running, no_colour: str, coloured: bool) -> None:
    with Screen("grn", "top", environment={"NO_COLOR": no_colour}) as screen:
        screen.until("4 running")

        assert (b"\x1b[36m" in screen.raw) == coloured
        assert chosen(screen)


def test_a_terminal_that_knows_only_ascii_gets_only_that(jobs: Running) -> None:
    with Screen("grn", "top", environment={"PYTHONIOENCODING": "ascii"}) as screen:
        screen.until("4 running")
        screen.until("# used   - leased   x others   . free")

        assert screen.raw.isascii()


def test_the_view_outlives_its_broker(screen: Screen) -> None:
    pid = running_pid()
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    until(lambda: running_pid() not in (None, pid), 20)
    ask(Pause(True), Acted)
    screen.until("queue paused")
    ask(Pause(False), Acted)
    screen.until_gone("queue paused")
    screen.until("4 running  2 queued")


def test_a_broker_that_does_not_answer_is_said_so(screen: Screen) -> None:
    pid = running_pid()
    assert pid is not None

    os.kill(pid, signal.SIGSTOP)
    try:
        screen.until(f"the broker (pid {pid}) has not answered for ")
    finally:
        os.kill(pid, signal.SIGCONT)

    screen.until_gone("has not answered")
    screen.until("4 running")


def test_a_job_is_cancelled_after_a_yes(screen: Screen) -> None:
    screen.press(b"\x1b[F")
    until(lambda: " queued " in chosen(screen), why=screen.said)
    screen.press(b"cn")
    screen.until("goes on")
    screen.press(b"c")
    screen.until("y/n")
    screen.press(b"y")

    screen.until("is being cancelled")
    screen.until("1 queued")


@pytest.mark.usefixtures("jobs")
def test_without_a_terminal_one_frame_is_printed_as_text() -> None:
    for words in ((), ("--once",)):
        done = run("grn", "top", *words)

        said = done.stdout.decode()
        assert done.returncode == 0
        assert [c for c in said if not c.isprintable() and c != "\n"] == []
        assert said.startswith("grn top  4 running")
        assert [line.split()[0] for line in said.splitlines()[2:4]] == ["host:0", "host:1"]


@pytest.mark.usefixtures("jobs")
def test_a_scene_for_machines() -> None:
    scene = facts("-n", "2")

    assert {key: type(value) for key, value in scene.items()} == {
        "at": str,
        "paused": bool,
        "stopping": bool,
        "running": int,
        "queued": int,
        "ended": int,
        "devices": list,
        "jobs": list,
    }
    assert scene["at"].endswith("Z")
    assert [row["index"] for row in scene["devices"]] == [0, 1]
    assert [row["state"] for row in scene["jobs"]] == ["running", "running"]


@pytest.mark.usefixtures("jobs")
def test_fewer_jobs_are_shown_on_request() -> None:
    said = run("grn", "top", "--once", "--jobs", "1").stdout.decode()

    assert said.splitlines()[-1].endswith("more jobs: `grn ps` lists all")


@pytest.mark.parametrize("words", [("--jobs", "-1"), ("--jobs", "x"), ("nothing",)])
def test_a_wrong_command_line_is_said_so(words: tuple[str, ...]) -> None:
    done = run("grn", "top", *words)

    assert done.returncode == 2
    assert words[-1].encode() in done.stderr


@pytest.mark.usefixtures("jobs")
def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        script("grn", "top"), stdout=writing, stderr=subprocess.PIPE, timeout=20 * PATIENCE
    )

    os.close(writing)
    assert done.stderr == b""


def test_without_a_broker_one_line_says_so_and_no_screen_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    with Screen("grn", "top") as screen:
        assert screen.ended() == 3
        assert b"`grn start`" in screen.raw
        assert len(screen.raw.splitlines()) == 1
        assert b"1049" not in screen.raw
    done = run("grn", "top", "--json")
    assert done.returncode == 3
    assert "`grn start`" in json.loads(done.stdout)["error"]


@pytest.mark.usefixtures("jobs")
def test_a_frame_needs_no_client_and_nothing_heavy() -> None:
    code = (
        "import sys; from grn_zmq.cli.main import grn; "
        "grn(['top', '--once'], standalone_mode=False); import grn_zmq.cli.live.live; "
        "print([m for m in ('grn_zmq.client', 'asyncio', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")

    assert done.stdout.splitlines()[-1] == "[]", done.stderr
