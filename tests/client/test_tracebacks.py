"""Exceptions that cross processes with their own frames."""

import asyncio
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import tests.workers.launching as jobs
from grn_zmq import tracebacks
from grn_zmq.errors import JobFailed, NotPicklable
from workers.jobevents import Outcome, Output, Ready

start = jobs.start


class Told(Exception):
    """Its text is not its argument: a plain unpickling would spoil it."""

    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(f"{what} [{code}]")
        self.code = code


class Missing(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(2, "not there", path)


class Unloadable(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def caught(function: Callable[..., object], *args: object) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def carried(error: BaseException) -> BaseException:
    return tracebacks.load_exception(tracebacks.dump_exception(error), "job-1")


def throw(error: BaseException) -> None:
    raise error


def test_type_arguments_and_frames_are_the_original_ones_r31() -> None:
    error = carried(caught(throw, RuntimeError("boom")))

    assert (type(error), error.args) == (RuntimeError, ("boom",))
    frames = traceback.extract_tb(error.__traceback__)
    assert [frame.name for frame in frames] == ["caught", "throw"]
    assert frames[-1].line == "raise error"
    assert frames[-1].filename == __file__


def test_the_printed_traceback_is_the_same_to_the_letter_r31() -> None:
    def divide(x: int) -> float:
        return 1 + (x / 0)

    def outer() -> None:
        try:
            divide(3)
        except ZeroDivisionError as cause:
            error = ValueError("wrapped")
            error.add_note("a note")
            raise error from cause

    original = caught(outer)

    expected = "".join(traceback.format_exception(original))
    assert "".join(traceback.format_exception(carried(original))) == expected


def test_a_context_and_its_suppression_survive() -> None:
    def silent() -> None:
        try:
            int("x")
        except ValueError:
            raise KeyError("k") from None

    error = carried(caught(silent))

    assert error.__suppress_context__
    assert isinstance(error.__context__, ValueError)
    assert error.__cause__ is None


def test_the_members_of_a_group_keep_their_frames_and_causes() -> None:
    first, second = caught(int, "x"), caught(throw, KeyError("k"))
    second.__cause__ = OSError("why")

    group = carried(caught(throw, ExceptionGroup("two", [first, second])))  # type: ignore[type-var]

    assert isinstance(group, ExceptionGroup)
    assert [type(member) for member in group.exceptions] == [ValueError, KeyError]
    assert traceback.extract_tb(group.exceptions[1].__traceback__)[-1].name == "throw"
    assert str(group.exceptions[1].__cause__) == "why"


def test_an_exception_with_its_own_constructor_is_not_made_anew() -> None:
    told, missing = carried(Told("lost", code=7)), carried(Missing("/x"))

    assert isinstance(told, Told)
    assert (str(told), told.code) == ("lost [7]", 7)
    assert isinstance(missing, Missing)
    assert (missing.errno, missing.filename) == (2, "/x")
    refused = carried(NotPicklable("it", TypeError("no")))
    assert isinstance(refused, NotPicklable)
    assert refused.what == "it"


def test_builtin_state_survives() -> None:
    stop, leave, decode = (
        carried(StopIteration(3)),
        carried(SystemExit(4)),
        carried(caught(b"\xff".decode)),
    )

    assert isinstance(stop, StopIteration)
    assert isinstance(leave, SystemExit)
    assert (stop.value, leave.code) == (3, 4)
    assert isinstance(decode, UnicodeDecodeError)


@pytest.mark.parametrize("error", [ValueError("lock", threading.Lock()), Unloadable("gone")])
def test_what_cannot_be_carried_is_told(error: Exception) -> None:
    told = carried(caught(throw, error))

    assert isinstance(told, JobFailed)
    assert told.job_id == "job-1"
    assert told.error_type.endswith(type(error).__name__)
    assert told.error_text == str(error)
    assert "in throw" in told.traceback_text


def test_a_cause_that_cannot_be_carried_does_not_spoil_the_exception() -> None:
    error = RuntimeError("boom")
    error.__cause__ = ValueError("lock", threading.Lock())

    told = carried(error)

    assert type(told) is RuntimeError
    assert isinstance(told.__cause__, JobFailed)
    assert told.__cause__.error_type == "ValueError"


def test_a_ring_of_contexts_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__context__, second.__context__ = second, first

    told = carried(first)

    assert told.__context__ is not None
    assert told.__context__.__context__ is told


def test_a_runaway_recursion_is_carried_by_its_ends() -> None:
    def recurse(n: int) -> None:
        if n:
            recurse(n - 1)
        raise ValueError(n)

    told = carried(caught(recurse, 700))

    assert len(traceback.extract_tb(told.__traceback__)) == 702


def test_an_exception_that_cannot_be_printed_is_still_dumped() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    told = carried(Mute("\ud800"))

    assert type(told).__name__ == "Mute"
    assert tracebacks.error_text(told) == "<its text failed with RuntimeError>"
    assert carried(ValueError("\ud800")).args == ("\ud800",)


@pytest.mark.e2e
def test_an_exception_comes_back_as_itself_with_the_jobs_frame_r31(start: jobs.Start) -> None:
    def explode() -> None:
        raise RuntimeError("boom")

    outcome = jobs.outcome_of(start(), explode)

    error = tracebacks.load_exception(outcome.body, "job-1")
    assert (type(error), error.args) == (RuntimeError, ("boom",))
    assert (outcome.error_type, outcome.error_text) == ("RuntimeError", "boom")
    frames = traceback.extract_tb(error.__traceback__)
    assert [(frame.name, frame.line) for frame in frames] == [
        ("explode", 'raise RuntimeError("boom")')
    ]


@pytest.mark.e2e
def test_an_exception_that_cannot_be_pickled_is_told_in_text(start: jobs.Start) -> None:
    def explode() -> None:
        raise ValueError("with a lock", threading.Lock())

    error = tracebacks.load_exception(jobs.outcome_of(start(), explode).body, "job-1")

    assert isinstance(error, JobFailed)
    assert (error.job_id, error.error_type) == ("job-1", "ValueError")
    assert "in explode" in error.traceback_text


@pytest.mark.e2e
def test_an_interrupt_reaches_the_function_as_keyboard_interrupt_r36(start: jobs.Start) -> None:
    def wait() -> None:
        print("ready")
        time.sleep(600)

    process = start()
    os.kill(jobs.until(process, Ready).pid, signal.SIGINT)  # idle: not for anybody
    process.feed(jobs.a_call(wait))
    jobs.until(process, Output)
    process.signal(signal.SIGINT)
    outcome = jobs.until(process, Outcome)

    assert (outcome.outcome, outcome.error_type) == ("failed", "KeyboardInterrupt")
    assert jobs.value_of(process, lambda: "alive") == "alive"


@pytest.mark.e2e
def test_a_coroutine_function_is_awaited_and_its_frames_are_its_own_r40(
    start: jobs.Start,
) -> None:
    async def add(x: int) -> int:
        await asyncio.sleep(0)
        return 1 // x

    process = start()

    assert jobs.value_of(process, add, 1) == 1
    error = tracebacks.load_exception(jobs.outcome_of(process, add, 0).body, "job-1")
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_code.co_name == "add"
