"""Time limits, graces, and what is known of an attempt that did not succeed."""

from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from tests.builders import a_run
from tests.workers.acting import a_return, a_worker, assign, end, result_in
from workers.effects import Close, Discard, Kill, Signal
from workers.events import Gone
from workers.runs import LAST_LINES, LAST_LINES_CHARACTERS, ActiveRun, Phase

TOKEN = f"shm-{'0' * 32}-{'1' * 32}"


def test_a_run_that_takes_too_long_is_asked_to_end_and_then_killed() -> None:
    core = a_worker()
    assign(core, a_run(1, time_limit_s=10.0, grace_s=2.0), now=5.0)

    assert core.tick(now=14.9) == []
    assert core.tick(now=15.0) == [Signal(1, SIGTERM)]
    assert core.tick(now=16.9) == []
    assert core.tick(now=17.0) == [Kill(1)]

    result = result_in(core.gone(1, Gone(None, SIGKILL), now=17.1))
    assert (result.outcome, result.error_type) == ("timed-out", "TimeLimitExceeded")
    assert result.error_text == "it ran longer than its time limit of 10 s"
    assert result.signal == SIGKILL
    assert result.run_s == pytest.approx(12.1)


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_whatever_a_function_says_after_its_limit_it_is_timed_out(outcome: str) -> None:
    core = a_worker()
    assign(core, a_run(1, time_limit_s=1.0))
    core.tick(now=1.0)

    effects = core.returned(1, a_return(outcome=outcome, token=TOKEN), now=1.5)
    result = result_in(core.gone(1, Gone(0, None), now=1.6))

    assert effects == [Discard(TOKEN), Close(1)]
    assert (result.outcome, result.payload, result.token) == ("timed-out", b"", "")


def test_a_function_that_ended_before_its_limit_is_not_timed_out() -> None:
    core = a_worker()
    assign(core, a_run(1, time_limit_s=1.0))
    core.returned(1, a_return(reusable=False, token=TOKEN), now=0.9)
    core.tick(now=1.1)

    result = result_in(core.gone(1, Gone(0, None), now=1.2))

    assert (result.outcome, result.token) == ("succeeded", TOKEN)


def test_who_is_being_cancelled_is_not_timed_out() -> None:
    core = a_worker()
    assign(core, a_run(1, time_limit_s=1.0))
    end(core, "terminate", now=0.5)

    assert core.tick(now=1.0) == []
    assert result_in(core.gone(1, Gone(None, SIGTERM), now=1.1)).outcome == "killed"


def test_waiting_for_blobs_does_not_count_for_the_limit() -> None:
    core = a_worker(with_blobs=False)
    assign(core, a_run(1, time_limit_s=1.0))

    assert core.tick(now=100.0) == []


def test_an_inline_job_is_not_ended_by_its_worker() -> None:
    core = a_worker()
    assign(core, a_run(1, kind="inline", function="", context="", time_limit_s=1.0))

    assert core.tick(now=100.0) == []


def test_each_run_has_its_own_grace() -> None:
    core = a_worker()
    assign(core, a_run(1, grace_s=0.5))

    assert end(core, "interrupt", now=1.0) == [Signal(1, SIGINT)]
    assert core.tick(now=1.5) == [Signal(1, SIGTERM)]
    assert core.tick(now=2.0) == [Kill(1)]


def test_a_worker_that_leaves_in_a_hurry_shortens_long_graces() -> None:
    core = a_worker()
    assign(core, a_run(1, grace_s=3600.0))
    core.end_everything(now=1.0)
    assert core.tick(now=100.0) == []

    core.end_everything(now=100.0, most_grace_s=8.0)

    assert core.tick(now=108.0) == [Kill(1)]


def test_the_last_lines_are_told_of_all_that_did_not_succeed() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2), a_run(3))
    for active in core.runs.values():
        active.hear(b"one\ntwo\n", "stdout")
        active.hear(b"three", "stderr")

    well = result_in(core.returned(1, a_return(), now=1.0))
    failed = result_in(core.returned(2, a_return(outcome="failed"), now=1.0))
    killed = result_in(core.gone(3, Gone(None, 9), now=1.0))

    assert (well.last_lines, failed.last_lines) == ("", "one\ntwo\nthree")
    assert killed.last_lines == failed.last_lines


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"10 %\r20 %\r100 %\r\nend\r\n", "100 %\nend"),
        (b"\x1b[31mred\x1b[0m\x00", "\\x1b[31mred\\x1b[0m\\x00"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"a\tb\n\nc\n", "a\tb\n\nc"),
    ],
)
def test_the_last_lines_are_as_a_terminal_shows_them_at_last(said: bytes, shown: str) -> None:
    active = ActiveRun(a_run(1), Phase.RUNNING)

    active.hear(said, "stdout")

    assert active.last_lines == shown


def test_the_last_lines_are_few_and_short_however_much_is_printed() -> None:
    lines, wide = ActiveRun(a_run(1), Phase.RUNNING), ActiveRun(a_run(2), Phase.RUNNING)

    for number in range(10_000):
        lines.hear(b"%d\n" % number, "stdout")
    wide.hear("✓".encode() * 10_000_000, "stdout")

    assert lines.last_lines.splitlines()[-1] == "9999"
    assert len(lines.last_lines.splitlines()) == LAST_LINES
    assert len(wide.last_lines) == LAST_LINES_CHARACTERS


def test_the_bases_of_an_exception_are_told() -> None:
    core = a_worker()
    assign(core, a_run(1))

    failed = a_return(outcome="failed", error_bases=("pkg.Mine", "Mine", "ValueError"))
    result = result_in(core.returned(1, failed, now=1.0))

    assert result.error_bases == ("pkg.Mine", "Mine", "ValueError")
