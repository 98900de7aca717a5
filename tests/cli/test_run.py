"""`grn run` with a standing broker: words, streams, statuses, types."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import grn_zmq as grn
from grn_zmq.cli.run import FORMS
from grn_zmq.cli.run import run as run_verb
from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.scripts import TRACEBACK, Running, alive, run, script
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("host_server")]

BINARY = bytes(range(256)) * 4


def rows_of(job_type: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("grn", "ps", "--all", "--json").stdout)
    return [row for row in rows if row["job_type"] == job_type]


def python(code: str) -> str:
    """A command line that runs this code."""
    return f"{sys.executable} -c '{code}'"


def test_r83_a_standing_broker_is_used_and_left_running(host_server: grn.Server) -> None:
    address = find_address(find_places(os.environ))

    done = run("grn-run", "echo used")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"used\n", b"")
    assert "type=echo used" in host_server.log()
    assert find_address(find_places(os.environ)) == address


def test_r84_the_type_is_the_command_with_its_numbers_written_as_a_hash() -> None:
    alone = run("grn-run", "echo --lr=0.1 typed 7")
    batch = run("grn-run", "echo --lr=2e-3 typed 8", "echo --lr=.5 typed -9")
    named = run("grn-run", "--type", "mine", "echo typed 7")

    assert [done.returncode for done in (alone, batch, named)] == [0, 0, 0]
    assert len(rows_of("echo --lr=# typed #")) == 3
    assert len(rows_of("mine")) == 1


def test_r85_a_command_line_is_split_into_words_as_a_shell_does() -> None:
    words = run("grn-run", python("import sys; print(sys.argv[1:])") + ' "a b" c\\ d ""')

    assert words.stdout == b"['a b', 'c d', '']\n", words.stderr


def test_after_two_dashes_all_words_are_one_command_as_they_are() -> None:
    code = "import sys; print(sys.argv[1:])"

    done = run("grn", "run", "--", sys.executable, "-c", code, "a b", "--type", "--", "*")

    assert done.stdout == b"['a b', '--type', '--', '*']\n", done.stderr


def test_r86_output_comes_through_unchanged_and_apart() -> None:
    code = (
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4); "
        "sys.stderr.buffer.write(bytes(range(255, -1, -1)))"
    )

    done = run("grn-run", python(code))

    assert done.returncode == 0
    assert done.stdout == BINARY
    assert done.stderr == bytes(range(255, -1, -1))


def test_r86_output_appears_before_the_command_ends(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    code = f'echo first; while [ ! -e "{go_on}" ]; do sleep 0.05; done; echo second'

    with Running("grn-run", f"sh -c '{code}'") as running:
        running.until_out("first\n")
        assert "second" not in running.out
        go_on.touch()

        assert running.ended() == 0
        assert running.out == "first\nsecond\n"


def test_r86_stdin_reaches_a_single_command_whatever_it_is() -> None:
    for data in (b"", b"one line", BINARY, random.Random(1).randbytes(20 << 20)):
        done = run("grn-run", "sha256sum", stdin=data)

        assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_r86_a_command_may_leave_its_stdin_unread() -> None:
    done = run("grn-run", "head -c 3", stdin=b"abc" * (1 << 20))

    assert (done.returncode, done.stdout) == (0, b"abc")
    assert list(find_places(os.environ).directory.glob("stdin-*")) == []


def test_r86_a_pipeline_that_writes_slowly_is_passed_on_at_once() -> None:
    process = subprocess.Popen(
        script("grn-run", "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for line in (b"first\n", b"second\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.stdin.close()

        assert process.wait(20 * PATIENCE) == 0


def test_r86_of_several_commands_none_gets_stdin() -> None:
    done = run("grn-run", "cat -n", "cat -A", stdin=b"for nobody")

    assert (done.returncode, done.stdout) == (0, b"")


def test_a_command_runs_without_any_stdin() -> None:
    closed = f'exec {script("grn-run")[0]} "cat -n" <&-'

    done = subprocess.run(["sh", "-c", closed], capture_output=True, timeout=30 * PATIENCE)

    assert (done.returncode, done.stdout) == (0, b""), done.stderr


def test_in_the_background_of_a_terminal_it_is_not_stopped_by_the_kernel(
    tmp_path: Path,
) -> None:
    """A shell stops background processes that read from the terminal; ours must only wait."""
    finished = tmp_path / "finished"
    terminal, side = os.openpty()
    ours = f"{script('grn-run')[0]} 'sleep 0.3'; touch {finished}"
    line = f"set -m; ({ours}) & while [ ! -e {finished} ]; do sleep 0.1; done"
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", "sh", "-c", line], stdin=side, stdout=side, stderr=side
    )
    os.close(side)

    until(finished.exists, 20)

    assert process.wait(20 * PATIENCE) == 0
    os.close(terminal)


@pytest.mark.parametrize(
    ("commands", "status"),
    [
        (["sh -c 'exit 7'"], 7),
        (["sh -c 'kill -9 $$'"], 137),
        (["sh -c 'kill -15 $$'"], 143),
        (["true"], 0),
        (["no-such-command-anywhere"], 127),
        (["/etc/hostname"], 126),
        (["sh -c 'exit 0'", "sh -c 'sleep 0.5; exit 5'", "sh -c 'exit 7'"], 5),
    ],
)
def test_r88_the_status_is_that_of_the_first_command_that_failed(
    commands: list[str], status: int
) -> None:
    done = run("grn-run", *commands)

    assert done.returncode == status, done.stderr
    assert TRACEBACK.encode() not in done.stderr


def test_r88_of_several_the_failed_ones_are_named() -> None:
    done = run("grn-run", "sh -c 'exit 3'", "true x")

    assert done.stderr == b"grn: status 3: sh -c 'exit 3'\n"


def test_a_command_that_is_not_there_is_named() -> None:
    done = run("grn", "run", "--", "no-such-command-anywhere", "x")

    assert done.returncode == 127
    assert b"no-such-command-anywhere: command not found" in done.stderr


def test_r89_a_failed_command_teaches_no_success(host_server: grn.Server) -> None:
    for _ in range(2):
        assert run("grn-run", "--type", "failing", "sh -c 'exit 7'").returncode == 7

    placed = re.findall(r" placed .*type=failing .*measuring=(\w+)", host_server.log())
    assert placed == ["True", "True"]


def test_r93_ctrl_c_ends_the_commands_and_leaves_the_standing_broker(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    commands = [f"sh -c 'echo $$ > {mark}; exec sleep 600'" for mark in (one, two)]
    with Running("grn-run", *commands) as running:
        until(lambda: all(m.exists() and m.read_text() for m in (one, two)), 20, running.said)
        pids = [int(mark.read_text()) for mark in (one, two)]

        running.interrupt()

        assert running.ended() == 130, running.said()
        assert running.err == ""
        assert not any(map(alive, pids))
    assert run("grn", "status").returncode == 0


def test_r93_a_command_sees_the_interrupt_and_may_finish_in_peace(tmp_path: Path) -> None:
    code = 'trap "echo saved; exit 0" INT; echo ready; while :; do sleep 0.1; done'
    with Running("grn-run", f"sh -c '{code}'") as running:
        running.until_out("ready")

        running.interrupt()

        assert running.ended() == 130
        assert running.out == "ready\nsaved\n"


@pytest.mark.parametrize("signum", [1, 15])
def test_a_signal_ends_the_commands_with_it(tmp_path: Path, signum: int) -> None:
    mark = tmp_path / "pid"
    with Running("grn-run", f"sh -c 'echo $$ > {mark}; exec sleep 600'") as running:
        until(lambda: mark.exists() and mark.read_text(), 20, running.said)

        running.process.send_signal(signum)

        assert running.ended() == 128 + signum
        assert not alive(int(mark.read_text()))
        assert TRACEBACK not in running.err


def test_p13_the_death_of_grn_run_is_the_end_of_its_command(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with Running("grn-run", f"sh -c 'echo $$ > {mark}; exec sleep 600'") as running:
        until(lambda: mark.exists() and mark.read_text(), 20, running.said)

        running.process.kill()
        running.ended()

        until(lambda: not alive(int(mark.read_text())), 2)


@pytest.mark.parametrize(
    "words", [("a", "b"), (), ("--",), ("a b", "--", "c"), ("",), ("x '",)]
)
def test_a_usage_error_shows_both_forms(words: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(run_verb, words)

    said = " ".join(refused.output.split())
    assert refused.exit_code == 2
    assert FORMS in said or "quotes do not match" in said


def test_a_usage_error_is_some_usage_and_one_line_that_helps() -> None:
    for name in (("grn", "run"), ("grn-run",)):
        refused = run(*name, "python", "train.py")

        *usage, line = refused.stderr.decode().splitlines()
        assert refused.returncode == 2
        assert FORMS in line
        assert all(one.startswith(("Usage: ", "Try ")) for one in usage if one)


def test_bytes_that_are_no_text_reach_the_command_as_they_are() -> None:
    done = run("grn", "run", "--", "echo", os.fsdecode(b"\xff"))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"\xff\n", b"")


def test_a_command_of_any_length_runs_under_a_type_of_bounded_length() -> None:
    long = "x" * 10_000

    one = run("grn", "run", "--", "echo", long)
    other = run("grn-run", f"echo {long} 7")

    assert (one.returncode, one.stdout) == (0, f"{long}\n".encode()), one.stderr
    assert (other.returncode, other.stdout) == (0, f"{long} 7\n".encode()), other.stderr
    rows = json.loads(run("grn", "ps", "--all", "--json").stdout)
    types = {row["job_type"] for row in rows if row["job_type"].startswith("echo xxx")}
    assert len(types) == 2
    assert {len(job_type) for job_type in types} == {4096}
