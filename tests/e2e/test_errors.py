"""How jobs fail, and what their callers are told: exceptions, exits, signals, pickles."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import grn_zmq as grn
from tests.e2e.scripts import all_leases_are_freed, run_script, write_script
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

LOCK = threading.Lock()


@grn.job()
def boom() -> NoReturn:
    raise RuntimeError("boom")


@grn.job()
def calls(function: Callable[[], Any]) -> Any:
    return function()


def inner_failure() -> NoReturn:
    raise KeyError("missing")


@grn.job()
def chained() -> NoReturn:
    try:
        inner_failure()
    except KeyError as error:
        wrapped = ValueError("outer")
        wrapped.add_note("a note")
        raise wrapped from error
    raise AssertionError


@grn.job()
def grouped() -> NoReturn:
    found: list[Exception] = []
    for kind in (KeyError, ValueError):
        try:
            raise kind("member")
        except kind as error:
            found.append(error)
    raise ExceptionGroup("two", found)


class Odd(Exception):
    """Its constructor takes other arguments than its base gets."""

    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


@grn.job()
def odd() -> NoReturn:
    raise Odd(7, text="odd")


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_r31_an_exception_reaches_the_caller_with_the_frame_of_the_job() -> None:
    with pytest.raises(RuntimeError) as caught:
        boom()

    assert type(caught.value) is RuntimeError
    assert caught.value.args == ("boom",)
    assert frames(caught.value)[-1] == "boom"
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, 'raise RuntimeError("boom")')


def test_p02_the_exception_of_a_future_is_the_same() -> None:
    error = boom.submit().exception()

    assert isinstance(error, RuntimeError)
    assert frames(error) == ["boom"]


def test_an_exception_chain_keeps_its_frames_and_notes() -> None:
    error = chained.submit().exception()

    assert isinstance(error, ValueError)
    assert error.__notes__ == ["a note"]
    assert isinstance(error.__cause__, KeyError)
    assert frames(error) == ["chained"]
    assert frames(error.__cause__) == ["chained", "inner_failure"]


def test_the_members_of_an_exception_group_keep_their_frames() -> None:
    error = grouped.submit().exception()

    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [KeyError, ValueError]
    assert [frames(one) for one in error.exceptions] == [["grouped"], ["grouped"]]


def test_an_exception_with_a_constructor_of_its_own_comes_whole() -> None:
    with pytest.raises(Odd, match=r"odd \(7\)") as caught:
        odd()

    assert caught.value.code == 7


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    def fails() -> NoReturn:
        raise ValueError("holds a lock", threading.Lock())

    with pytest.raises(grn.JobFailed, match=r"ValueError.*holds a lock") as caught:
        calls(fails)

    assert caught.value.error_type == "ValueError"
    assert "in fails" in caught.value.traceback_text


def test_l11_the_text_of_a_failure_is_on_the_stderr_of_the_script(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "fails.py",
        """
        @grn.job()
        def fails():
            raise LookupError("nothing here")

        fails()
        """,
    )

    done = run_script(script)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("LookupError: nothing here")
    assert 'raise LookupError("nothing here")' in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("leave", "status"),
    [
        (lambda: sys.exit(3), 3),
        (lambda: sys.exit(), 0),
        (lambda: sys.exit("a reason"), 1),
        (lambda: os._exit(4), 4),
        (lambda: os._exit(0), 0),
    ],
    ids=["sys.exit(3)", "sys.exit()", "sys.exit(text)", "os._exit(4)", "os._exit(0)"],
)
def test_a_job_that_exits_does_not_end_its_caller(
    leave: Callable[[], NoReturn], status: int
) -> None:
    with pytest.raises(grn.JobExited) as caught:
        calls(leave)

    assert caught.value.exit_status == status


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_job_that_a_signal_ends_was_killed(signum: int) -> None:
    with pytest.raises(grn.JobKilled) as caught:
        calls(lambda: os.kill(os.getpid(), signum))

    assert caught.value.signal == signum


def test_r33_any_exit_frees_the_lease() -> None:
    @grn.job(type="never measured")
    def leaves(how: str) -> str:
        if how == "raise":
            raise ValueError(how)
        if how == "exit":
            sys.exit(3)
        if how == "leave":
            os._exit(5)
        return how

    started = time.monotonic()
    with pytest.raises(ValueError, match="raise"):
        leaves("raise")
    with pytest.raises(grn.JobExited) as exited:
        leaves("exit")
    with pytest.raises(grn.JobExited) as left:
        leaves("leave")

    assert leaves("return") == "return"
    assert time.monotonic() - started < 4 * 2 * PATIENCE
    assert (exited.value.exit_status, left.value.exit_status) == (3, 5)
    all_leases_are_freed()


def test_an_argument_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(grn.NotPicklable, match=r"argument 'function' .*lock.*inline=True"):
        calls(threading.Lock())  # type: ignore[arg-type]
    with pytest.raises(grn.NotPicklable, match=r"argument 'function'\['deep'\]\[1\]"):
        calls(function={"deep": [1, LOCK]})  # type: ignore[arg-type]


def test_a_closure_that_cannot_be_pickled_is_named() -> None:
    mine = threading.Lock()

    @grn.job()
    def locks() -> bool:
        return mine.locked()

    with pytest.raises(grn.NotPicklable, match="variable 'mine' used by locks"):
        locks.submit()


def test_a_global_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "globals.py",
        """
        import threading
        LOCK = threading.Lock()

        @grn.job()
        def locks():
            return LOCK.locked()

        try:
            locks()
        except grn.NotPicklable as error:
            print(error)
        """,
    )

    done = run_script(script)

    assert "global 'LOCK' used by locks" in done.stdout, done.stderr
    assert "inline=True" in done.stdout


def test_a_result_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(grn.NotPicklable, match=r"the result\['lock'\].*inline=True"):
        calls(lambda: {"lock": threading.Lock()})


def test_a_value_that_cannot_be_unpickled_by_the_client_says_so(tmp_path: Path) -> None:
    def only_there() -> Any:
        import types

        module = types.ModuleType("only_there")
        sys.modules["only_there"] = module
        exec("class Thing: pass", module.__dict__)
        return module.__dict__["Thing"]()

    with pytest.raises(grn.JobFailed, match=r"cannot be unpickled here.*only_there"):
        calls(only_there)


def test_arguments_that_fail_to_unpickle_fail_the_job(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return int, ("not a number",)

    with pytest.raises(ValueError, match="not a number"):
        calls(Bomb())  # type: ignore[arg-type]
