"""From an outcome to what the caller gets."""

import pickle
from typing import Any

import pytest

from grn_zmq.errors import (
    JobError,
    JobExited,
    JobFailed,
    JobKilled,
    JobLost,
    JobOutOfMemory,
    JobTooLarge,
    ResultExpired,
    TimeLimitExceeded,
    WaitTimeout,
)
from grn_zmq.outcomes import open_outcome
from grn_zmq.payload import dump_value
from grn_zmq.records import Outcome
from grn_zmq.tracebacks import dump_exception
from grn_zmq.units import GIB
from tests.builders import a_spec, an_outcome

REPORT = "train.py::fit ran out of memory 3 times, the last time alone; batch_size=64 did fit"


class OutOfMemoryError(RuntimeError):
    """As a framework has it: no MemoryError."""


def oom(**changes: Any) -> Outcome:
    given: dict[str, Any] = {
        "outcome": "oom",
        "device": "nvml:0",
        "peak_bytes": 15 * GIB,
        "attempts": 3,
        "error_type": "OutOfMemoryError",
        "error_text": REPORT,
        "payload": b"",
    }
    return an_outcome(**{**given, **changes})


def error_of(outcome: Outcome) -> BaseException:
    value, error = open_outcome(outcome, a_spec())
    assert value is None
    assert error is not None
    return error


def thrown(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_the_exception_of_the_job_is_raised_as_in_place_with_the_report_as_a_note() -> None:
    own = thrown(OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    own.add_note("its own note")

    error = error_of(oom(payload=dump_exception(own)))

    assert type(error) is OutOfMemoryError
    assert str(error) == str(own)
    first, second = error.__notes__
    assert first == "its own note"
    assert second == REPORT


def test_without_an_exception_it_is_a_memory_error_with_the_facts() -> None:
    error = error_of(oom())

    assert isinstance(error, JobOutOfMemory)
    assert isinstance(error, JobError)
    assert isinstance(error, MemoryError)
    assert (error.peak_bytes, error.device, error.attempts) == (15 * GIB, "nvml:0", 3)
    assert str(error) == REPORT


def test_an_exception_that_cannot_travel_leaves_a_memory_error_with_its_traceback() -> None:
    class Local(RuntimeError):
        def __reduce__(self) -> str:
            raise pickle.PicklingError("no")

    error = error_of(oom(payload=dump_exception(thrown(Local("gone")))))

    assert isinstance(error, JobOutOfMemory)
    assert isinstance(error.__cause__, JobFailed)
    assert "gone" in str(error.__cause__)


@pytest.mark.parametrize(("attempts", "times"), [(1, "once"), (3, "3 times")])
def test_without_a_report_the_figures_tell_it(attempts: int, times: str) -> None:
    error = error_of(oom(error_text="", attempts=attempts))

    assert str(error) == (
        "train.py::fit (job 00000000) ran out of memory: "
        f"tried {times}, it reached 15.0 GiB on nvml:0"
    )


def test_an_oom_that_a_signal_ended_is_still_one() -> None:
    assert isinstance(error_of(oom(signal=9)), JobOutOfMemory)
    assert isinstance(error_of(oom(outcome="killed", signal=9)), JobKilled)


def test_too_large_a_job_says_how_to_forget_what_was_measured() -> None:
    outcome = an_outcome(
        outcome="failed",
        error_type="JobTooLarge",
        need_bytes=20 * GIB,
        largest_bytes=16 * GIB,
        payload=b"",
    )

    _, error = open_outcome(outcome, a_spec(job_type="python train.py --lr #"))

    assert isinstance(error, JobTooLarge)
    assert str(error).endswith("grn profiles forget 'python train.py --lr #'")


@pytest.mark.parametrize(("kind", "option"), [("call", "memory="), ("command", "--memory")])
def test_a_job_that_was_declared_too_large_was_not_measured(kind: str, option: str) -> None:
    outcome = an_outcome(
        outcome="failed",
        error_type="JobTooLarge",
        need_bytes=20 * GIB,
        largest_bytes=16 * GIB,
        payload=b"",
    )

    _, error = open_outcome(outcome, a_spec(kind=kind, job_type="t", memory_bytes=20 * GIB))
    _, other = open_outcome(outcome, a_spec(kind=kind, job_type="t", memory_bytes=2 * GIB))

    assert str(error) == (
        f"t was declared to need 20.0 GiB of device memory ({option}), but the largest device "
        f"here has 16.0 GiB. Declare less, or leave {option} out"
    )
    assert "was measured at 20.0 GiB" in str(other)


@pytest.mark.parametrize(
    ("outcome", "error", "said"),
    [
        ("timed-out", TimeLimitExceeded, "train.py::fit (job 00000000) was ended: because"),
        ("expired", WaitTimeout, "train.py::fit (job 00000000) was given up: because"),
        ("lost", JobLost, "train.py::fit (job 00000000) was lost: because. It may have run"),
    ],
)
def test_each_end_has_an_error_of_its_own(
    outcome: str, error: type[JobError], said: str
) -> None:
    got = error_of(an_outcome(outcome=outcome, error_text="because", payload=b""))

    assert type(got) is error
    assert str(got).startswith(said)
    assert isinstance(got, TimeoutError) == (outcome in ("timed-out", "expired"))


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"outcome": "killed", "signal": 9}, JobKilled),
        ({"outcome": "failed", "error_type": "JobExited", "exit_status": 3}, JobExited),
        ({"outcome": "lost"}, JobLost),
        ({"outcome": "timed-out"}, TimeLimitExceeded),
    ],
)
def test_the_last_lines_are_told_where_the_job_left_no_other_word(
    facts: dict[str, Any], error: type[JobError]
) -> None:
    lines = "epoch 1\tloss 3\nepoch 2\x1b[2J\n"

    got = error_of(an_outcome(last_lines=lines, payload=b"", **facts))

    assert type(got) is error
    assert isinstance(got, JobError)
    assert got.last_lines == lines
    assert str(got).endswith("Its last lines:\n    epoch 1 loss 3\n    epoch 2\ufffd[2J")
    assert got.summary == str(got).partition(". Its last lines:")[0]


def test_an_exception_of_the_job_says_what_it_says() -> None:
    raised = dump_exception(thrown(ValueError("its own")))

    got = error_of(an_outcome(outcome="failed", last_lines="lines\n", payload=raised))

    assert type(got) is ValueError
    assert str(got) == "its own"


class Malicious:
    """Ends whoever opens it."""

    def __init__(self, ending: str) -> None:
        self._ending = ending

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"raise {self._ending}('at opening')",)


@pytest.mark.parametrize("ending", ["SystemExit", "KeyboardInterrupt", "ValueError"])
def test_f34_a_value_that_ends_its_opener_is_an_error_that_says_so(ending: str) -> None:
    got = error_of(an_outcome(payload=dump_value(Malicious(ending)).joined()))

    assert isinstance(got, JobFailed)
    assert got.error_type == ending
    assert "cannot be unpickled here: at opening" in str(got)


@pytest.mark.parametrize("ending", ["SystemExit", "KeyboardInterrupt", "ValueError"])
def test_f34_an_exception_that_ends_its_opener_is_an_error_that_says_so(ending: str) -> None:
    class Bad(RuntimeError):
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, (f"raise {ending}('at opening')",)

    got = error_of(an_outcome(outcome="failed", payload=dump_exception(thrown(Bad("own")))))

    assert isinstance(got, JobFailed)


def test_a_value_whose_file_is_gone_has_expired() -> None:
    token = f"shm-{'a' * 32}-{'b' * 32}"

    value, error = open_outcome(an_outcome(payload=b"", token=token), a_spec(), None)

    assert value is None
    assert isinstance(error, ResultExpired)


def test_a_value_in_a_file_is_opened_from_there() -> None:
    token = f"shm-{'a' * 32}-{'b' * 32}"
    file = memoryview(dump_value([1, 2]).joined())

    assert open_outcome(an_outcome(payload=b"", token=token), a_spec(), file) == ([1, 2], None)
