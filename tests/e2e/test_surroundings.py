"""A job behaves as if called in place: directory, environment, streams, code as it is now."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e.scripts import run_script, running_script, write_script
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

LOOK = """
import os, sys, json

@grn.job()
def look():
    umask = os.umask(0)
    os.umask(umask)
    keys = ("MINE", "PATH", "PYTHONPATH")
    return [os.getcwd(), umask, {key: os.environ.get(key) for key in keys}, sys.argv, sys.path]

os.umask(0o027)
here = [os.getcwd(), 0o027]
there = look()
keys = ("MINE", "PATH", "PYTHONPATH")
here += [{key: os.environ.get(key) for key in keys}, sys.argv, sys.path]
assert here == there, (here, there)

os.environ["MINE"] = "changed"
os.chdir("/")
assert look()[0] == "/"
assert look()[2]["MINE"] == "changed"
print("the same")
"""

TALK = """
import os, sys, time

@grn.job()
def talk(gate):
    print("out, before the end")
    print("err, before the end", file=sys.stderr)
    while not os.path.exists(gate):
        time.sleep(0.01)
    sys.stdout.write("no newline at the end")
    os.system("echo from a child")
    return "done"

talk(sys.argv[1])
"""

HELPER = "def answer():\n    return {value}\n"

CALLS_HELPER = """
import helper

@grn.job()
def ask():
    return helper.answer()

by_reference = grn.job()(helper.answer)
print(ask(), by_reference())
"""

FORKS = """
import multiprocessing, os

@grn.job()
def double(n):
    return 2 * n

def child(n):
    print("child", double(n), flush=True)

assert double(1) == 2
future = double.submit(3)

pid = os.fork()
if pid == 0:
    value = double(4)
    os._exit(value)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 8

process = multiprocessing.get_context("fork").Process(target=child, args=(5,))
process.start()
process.join()
assert process.exitcode == 0
assert future.result() == 6
print("parent", double(6), flush=True)
"""


@grn.job()
def say(text: str) -> None:
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    os.close(2)


def test_directory_umask_environment_and_path_are_the_clients(tmp_path: Path) -> None:
    script = write_script(tmp_path / "look.py", LOOK)

    done = run_script(script, "an argument", MINE="given")

    assert done.stdout == "the same\n", done.stderr


def test_p12_output_is_seen_before_the_job_ends_and_stderr_apart(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    with running_script(write_script(tmp_path / "talk.py", TALK), gate) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "out, before the end\n"
        assert process.stderr.readline() == "err, before the end\n"
        assert process.poll() is None
        gate.touch()
        out, err = process.communicate(timeout=10 * PATIENCE)

    assert out in (
        "no newline at the endfrom a child\n",
        "from a child\nno newline at the end",
    )
    assert err == ""
    assert process.returncode == 0


def test_p12_output_of_many_lines_comes_whole_and_in_order(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "lines.py",
        """
        @grn.job()
        def lines():
            for n in range(20000):
                print(n)

        lines()
        """,
    )

    done = run_script(script)

    assert done.stdout.split() == [str(n) for n in range(20000)], done.stderr


def test_p29_the_worker_keeps_its_own_streams(
    small_server: grn.Server, capfd: pytest.CaptureFixture[str]
) -> None:
    say("a first line")
    say("a second line")

    captured = capfd.readouterr()
    assert captured.out == captured.err == "a first line\na second line\n"
    assert "a first line" not in small_server.log()
    assert "a second line" not in small_server.log()


def test_edited_code_is_never_stale(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    script = write_script(tmp_path / "asks.py", CALLS_HELPER)
    answers = []
    for value in ("1", "'two'"):
        helper.write_text(HELPER.format(value=value))
        answers.append(run_script(script, PYTHONDONTWRITEBYTECODE="1").stdout)

    assert answers == ["1 1\n", "two two\n"]


def test_a_function_that_changes_in_one_process_runs_as_it_is_now() -> None:
    def make(value: int) -> "grn.JobFunction[[], int]":
        @grn.job(type="changes")
        def changing() -> int:
            return value

        return changing

    assert [make(1)(), make(2)(), make(1)()] == [1, 2, 1]


def test_forked_and_multiprocessing_children_have_connections_of_their_own(
    tmp_path: Path,
) -> None:
    done = run_script(write_script(tmp_path / "forks.py", FORKS))

    assert done.stdout == "child 10\nparent 12\n", done.stderr
    assert done.returncode == 0


def test_a_child_of_fork_leaves_the_jobs_of_its_parent_alone(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "leaves.py",
        """
        import os, sys, time

        @grn.job()
        def waits(path):
            while not os.path.exists(path):
                time.sleep(0.01)
            return "whole"

        future = waits.submit(sys.argv[1])
        while not future.running():
            time.sleep(0.01)
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        assert not future.done()
        open(sys.argv[1], "w").close()
        print(future.result())
        """,
    )

    done = run_script(script, tmp_path / "gate")

    assert done.stdout == "whole\n", done.stderr


def test_a_script_given_on_the_command_line_or_stdin_works(tmp_path: Path) -> None:
    program = "import grn_zmq as grn\n@grn.job()\ndef f(): return 42\nprint(f(), f.job_type)"

    given = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    piped = subprocess.run([sys.executable], input=program, capture_output=True, text=True)

    assert given.stdout == "42 <string>::f\n", given.stderr
    assert piped.stdout == "42 <stdin>::f\n", piped.stderr


def test_the_type_inside_a_job_is_that_outside(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "types.py",
        """
        @grn.job()
        def f(depth):
            return [f.job_type] + (f(depth - 1) if depth else [])

        print(set(f(1)) == {f.job_type})
        """,
    )

    started = time.monotonic()
    done = run_script(script)

    assert done.stdout == "True\n", done.stderr
    assert time.monotonic() - started < 10 * PATIENCE
