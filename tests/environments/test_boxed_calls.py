"""Calls inside the interpreter of an environment, which has nothing of ours installed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import boxing, payload
from grn_zmq.boxing import Box, call_in_box
from grn_zmq.environments import Bubblewrap, Mount
from grn_zmq.tracebacks import load_exception
from tests.environments.attempts import a_request
from tests.waiting import until

pytestmark = pytest.mark.e2e

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# The Python itself, called by another version: it answers as 3.9 would.
OLDER = """#!{python}
import runpy, sys
sys.version_info = (3, 9, 1, "final", 0)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a virtual environment without any package."""
    directory = tmp_path_factory.mktemp("tf")
    venv.create(directory, with_pip=False)
    return str(directory / "bin" / "python")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for boxes, as workers have one: in memory, and nobody else's."""
    directory = Path(tempfile.mkdtemp(prefix="grn-box-", dir="/dev/shm"))
    yield directory
    assert list(directory.iterdir()) == [], "a box was left behind"
    directory.rmdir()


Call = Callable[..., tuple[dict[str, object], bytes]]


@pytest.fixture
def call(interpreter: str, place: Path) -> Call:
    """Call a function in a box; with `words` before its interpreter, or another one."""

    def made(
        function: Callable[..., Any],
        *args: Any,
        words: tuple[str, ...] = (),
        apart: bool = False,
    ) -> tuple[dict[str, object], bytes]:
        run = {"stand_in": False, "on_host": True, "total_bytes": 1, "cap_bytes": 0}
        box = Box("tf", words or (interpreter,), str(place / "box"), apart)
        content = memoryview(payload.dump_arguments(args, {}).joined())
        header, body = call_in_box(box, run, payload.dump_function(function), content)
        return header, body.joined()

    return made


def where() -> tuple[str, int]:
    return sys.prefix, os.getpid()


@pytest.mark.parametrize("apart", [False, True])
def test_a_call_runs_in_the_interpreter_of_its_environment(
    call: Call, interpreter: str, apart: bool
) -> None:
    offset = 7

    def inner(number: int) -> tuple[str, int, str]:
        return sys.prefix, number + offset, os.getcwd()

    header, body = call(inner, 3, apart=apart)

    assert header["outcome"] == "succeeded"
    assert payload.load_value(body) == (str(Path(interpreter).parents[1]), 10, os.getcwd())


def test_nothing_of_our_own_interpreter_is_found_there(call: Call) -> None:
    def found() -> list[str]:
        return [one for one in sys.path if "site-packages" in one and ".venv" in one]

    header, body = call(found)

    assert header["outcome"] == "succeeded"
    assert payload.load_value(body) == []


def test_modules_of_the_caller_are_found_there(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boxed_helper.py").write_text("ANSWER = 42\ndef answer():\n    return ANSWER\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from boxed_helper import answer  # type: ignore[import-not-found]

    header, body = call(answer)

    assert header["outcome"] == "succeeded"
    assert payload.load_value(body) == 42
    sys.modules.pop("boxed_helper")


def test_an_exception_keeps_its_type_and_the_frames_of_the_function(call: Call) -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    header, body = call(fail, "lost")

    error = load_exception(body, "1")
    assert header["error_type"] == "LookupError"
    assert isinstance(error, LookupError)
    assert error.args == ("lost",)
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_code.co_name == "fail"


def test_running_out_of_memory_is_told_as_that(call: Call) -> None:
    def take() -> None:
        raise MemoryError

    header, _ = call(take)

    assert header["outcome"] == "oom"


def test_output_appears_while_the_function_runs(
    call: Call, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate"

    def talk() -> None:
        print("first")
        while not gate.exists():
            time.sleep(0.01)
        print("last", file=sys.stderr)

    def watch() -> None:
        until(lambda: "first" in capfd.readouterr().out)
        gate.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    header, _ = call(talk)
    watcher.join()

    assert header["outcome"] == "succeeded"
    assert capfd.readouterr().err == "last\n"


def test_sys_exit_gives_its_status(call: Call) -> None:
    header, _ = call(sys.exit, 3)

    assert (header["outcome"], header["exit_status"]) == ("exited", 3)


def test_leaving_without_a_word_gives_the_status_too(call: Call) -> None:
    header, _ = call(os._exit, 4)

    assert (header["outcome"], header["exit_status"]) == ("exited", 4)


def test_being_killed_ends_the_job_process_in_the_same_way(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(boxing, "_end_by", ended.append)

    call(lambda: os.kill(os.getpid(), signal.SIGKILL))

    assert ended == [signal.SIGKILL]


def test_a_thread_that_never_ends_does_not_keep_the_answer(call: Call) -> None:
    def leave_a_thread() -> int:
        threading.Thread(target=threading.Event().wait).start()
        return 5

    header, body = call(leave_a_thread)

    assert payload.load_value(body) == 5
    assert header["outcome"] == "succeeded"


def test_another_minor_version_is_refused_with_both_numbers(call: Call, tmp_path: Path) -> None:
    older = tmp_path / "python3.9"
    older.write_text(OLDER.format(python=sys.executable))
    older.chmod(0o755)

    header, _ = call(where, words=(str(older),))

    assert header["error_type"] == "JobNotStarted"
    assert f"tf has Python 3.9, but the function was made by Python {VERSION}" in str(
        header["error_text"]
    )


def test_an_interpreter_that_is_not_there_is_named(call: Call) -> None:
    header, _ = call(where, words=("/no/such/python",))

    assert header["error_type"] == "JobNotStarted"
    assert header["error_text"] == (
        "the environment tf could not be entered: /no/such/python: No such file or directory"
    )


def test_words_that_fail_before_the_interpreter_runs_are_named(
    call: Call, interpreter: str
) -> None:
    header, _ = call(where, words=("sh", "-c", "exit 125", interpreter))

    assert "could not be entered: sh left with status 125" in str(header["error_text"])


def test_large_arguments_and_results_pass(call: Call) -> None:
    header, body = call(lambda data: data[::-1], b"ab" * (1 << 20))

    assert header["outcome"] == "succeeded"
    assert payload.load_value(body) == b"ba" * (1 << 20)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_p20_a_call_runs_in_a_real_sandbox(
    call: Call, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.chdir(tmp_path)
    mounts = (Mount(str(tmp_path), writable=True), Mount(str(place), writable=True))
    # The interpreter is below /tmp, where the sandbox has a directory of its own.
    sandbox = Bubblewrap(name="safe", mounts=(f"{Path(interpreter).parents[1]}::ro",))
    words = sandbox.words(a_request(cwd=str(tmp_path), mounts=mounts))

    def try_to_write() -> list[str]:
        written = []
        for one in ("here", "/usr/there"):
            try:
                Path(one).touch()
                written.append(one)
            except OSError:
                pass
        return written

    header, body = call(try_to_write, words=(*words, interpreter), apart=sandbox.apart)

    assert header["outcome"] == "succeeded"
    assert payload.load_value(body) == ["here"]
    assert not Path("/usr/there").exists()


def test_the_first_file_is_understood_by_any_python() -> None:
    """No f-string, no annotation: it must fail by its own words, not by a syntax error."""
    entry = Path(boxing.__file__).with_name("box_entry.py").read_text()

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 4))",
        ],
        input=entry,
        text=True,
    )

    assert done.returncode == 0
    assert 'f"' not in entry
