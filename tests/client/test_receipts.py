"""The line at a job's end: what it says, and how seldom it is said."""

import io
import os
import pty
import sys
from dataclasses import replace
from typing import Any, TextIO

import pytest

from grn_zmq.naming import short_type
from grn_zmq.receipts import PAUSE_S, Receipts, Reporter, line_of
from grn_zmq.terminal import OutputWriter
from grn_zmq.units import GIB, MIB
from tests.builders import a_spec, an_outcome

FIT = an_outcome(
    device="nvml:0",
    peak_bytes=int(4.2 * GIB),
    predicted_bytes=int(4.5 * GIB),
    fit=3,
    run_s=12.3,
)


def test_the_line_has_use_prediction_how_many_fit_and_the_time() -> None:
    spec = a_spec(job_type="/home/me/work/train.py::fit")

    assert line_of(FIT, spec) == (
        "grn: train.py::fit used 4.2 GiB (predicted 4.5 GiB), 3 fit on nvml:0; ran 12.3 s\n"
    )


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"predicted_bytes": 0}, "used 4.2 GiB (not known before), 3 fit on nvml:0"),
        ({"fit": 0}, "(predicted 4.5 GiB), does not fit on nvml:0; ran"),
        ({"fit": 0, "seen": False}, "(predicted 4.5 GiB), on nvml:0; ran"),
        ({"fit": 0, "peak_bytes": 0}, "used 0 B (predicted 4.5 GiB), on nvml:0; ran"),
        (
            {"fit": 0, "outcome": "failed"},
            "train.py::fit failed; used 4.2 GiB (predicted 4.5 GiB), on nvml:0; ran",
        ),
        ({"seen": False}, "used no memory that could be seen"),
        ({"attempts": 2}, "ran 12.3 s in attempt 2\n"),
        ({"outcome": "oom"}, "ran out of memory at 4.2 GiB"),
        ({"run_s": 187.2}, "ran 3:07\n"),
        ({"run_s": 7205.0}, "ran 2:00:05\n"),
    ],
)
def test_the_line_tells_what_is_unusual(changes: dict[str, Any], part: str) -> None:
    assert part in line_of(replace(FIT, **changes), a_spec())


def test_an_attached_job_is_named_by_its_id() -> None:
    assert line_of(FIT, None).startswith("grn: job 00000000 used")


def test_names_cannot_act_on_a_terminal_nor_fill_it() -> None:
    line = line_of(FIT, a_spec(job_type="evil\x1b[2J\n" + "x" * 4000))

    assert len(line) < 160
    assert line[:-1].isprintable()


@pytest.mark.parametrize(
    ("job_type", "short"),
    [
        ("/home/me/train.py::fit", "train.py::fit"),
        ("package.module::Model.fit", "package.module::Model.fit"),
        ("python train.py --lr #", "python train.py --lr #"),
        ("pytest tests/a.py::b", "pytest tests/a.py::b"),
    ],
)
def test_only_the_directory_of_a_script_is_left_out(job_type: str, short: str) -> None:
    assert short_type(job_type) == short


def lines_of_calls(lines: Receipts, peaks: list[int], seconds_apart: float) -> list[str]:
    shown = []
    for number, peak in enumerate(peaks):
        outcome = an_outcome(number, peak_bytes=peak * MIB)
        shown += lines.add(outcome, a_spec(number), number * seconds_apart)
    return shown


def test_a_map_of_a_thousand_equal_calls_has_one_line() -> None:
    lines = Receipts()

    assert len(lines_of_calls(lines, [100] * 1000, 0.1)) == 1
    assert lines.rest() == []


def test_small_changes_are_no_news_until_they_have_added_up() -> None:
    lines = Receipts()

    assert len(lines_of_calls(lines, [100, 104, 97, 103, 98], PAUSE_S)) == 1
    assert lines.rest() == []
    first, second = lines_of_calls(Receipts(), [100, 103, 106, 109], PAUSE_S)
    assert "used 100.0 MiB" in first
    assert "used 106.0 MiB" in second


def test_a_right_prediction_is_no_news_and_one_far_exceeded_always_is() -> None:
    lines = Receipts()

    def told(number: int, predicted_mib: int) -> int:
        outcome = an_outcome(number, predicted_bytes=predicted_mib * MIB)  # it takes 100 MiB
        return len(lines.add(outcome, a_spec(number), number * PAUSE_S))

    assert [told(1, 0), told(2, 102), told(3, 98)] == [1, 0, 0]
    assert [told(4, 80), told(5, 80), told(6, 80)] == [1, 1, 1]
    assert [told(7, 100), told(8, 100)] == [1, 0]


def test_the_first_failure_and_how_many_fit_are_news() -> None:
    lines = Receipts()
    changes: list[dict[str, Any]] = [
        {"fit": 2}, {"fit": 2}, {"fit": 3}, {"outcome": "failed"}, {"outcome": "failed"}
    ]  # fmt: skip

    shown = [
        lines.add(an_outcome(n, **one), a_spec(n), n * PAUSE_S) for n, one in enumerate(changes)
    ]

    assert [len(one) for one in shown] == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("bad", [{"outcome": "failed"}, {"predicted_bytes": 50 * MIB}])
def test_bad_news_that_had_to_wait_are_not_replaced_by_good_ones(bad: dict[str, Any]) -> None:
    lines = Receipts()

    for number, changes in enumerate([{}, bad, {"fit": 2}]):
        lines.add(an_outcome(number, **changes), a_spec(number), 0.0)

    (line,) = lines.rest()
    assert "failed" in line or "predicted 50.0 MiB" in line


def test_a_command_that_ran_out_of_memory_is_reported_on_by_whoever_ran_it() -> None:
    outcome = an_outcome(outcome="oom")

    assert Receipts().add(outcome, a_spec(kind="command"), 0.0) == []
    assert len(Receipts().add(outcome, a_spec(), 0.0)) == 1


def test_figures_that_change_all_the_time_have_a_line_in_five_seconds_and_the_last() -> None:
    lines = Receipts()

    shown = lines_of_calls(lines, list(range(100, 300)), 0.1)

    assert len(shown) == 4  # in 20 s
    assert "used 100.0 MiB" in shown[0]
    (last,) = lines.rest()
    assert "used 299.0 MiB" in last
    assert lines.rest() == []


def test_one_type_does_not_silence_another_and_tells_for_it_what_was_held_back() -> None:
    lines = Receipts()
    lines_of_calls(lines, [100, 200], 0.1)

    other = lines.add(an_outcome(3), a_spec(3, job_type="other"), 1.0)
    later = lines.add(an_outcome(4), a_spec(4, job_type="other"), PAUSE_S + 1)

    assert [line.split()[1] for line in other] == ["other"]
    assert [line.split()[1:4] for line in later] == [["train.py::fit", "used", "200.0"]]


def test_every_command_has_its_line() -> None:
    lines = Receipts()

    shown = [lines.add(an_outcome(n), a_spec(n, kind="command"), 0.0) for n in range(3)]

    assert [len(one) for one in shown] == [1, 1, 1]


@pytest.mark.parametrize(
    "changes", [{"outcome": "cancelled"}, {"outcome": "lost"}, {"device": ""}]
)
def test_a_job_that_did_not_run_to_an_end_has_none(changes: dict[str, Any]) -> None:
    assert Receipts().add(an_outcome(**changes), a_spec(), 0.0) == []


def said(monkeypatch: pytest.MonkeyPatch, stream: TextIO | None, setting: str) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    reporter = Reporter(OutputWriter(), setting)
    reporter.job_ended(FIT, a_spec())
    reporter.close()


@pytest.mark.parametrize(("setting", "lines"), [("", 0), ("0", 0), ("1", 1), ("maybe", 0)])
def test_what_is_no_terminal_has_lines_if_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, setting: str, lines: int
) -> None:
    stream = io.StringIO()

    said(monkeypatch, stream, setting)

    assert stream.getvalue().count("\n") == lines


@pytest.mark.parametrize(("setting", "lines"), [("", 1), ("0", 0), ("1", 1), ("maybe", 1)])
def test_a_terminal_has_lines_unless_they_are_silenced(
    monkeypatch: pytest.MonkeyPatch, setting: str, lines: int
) -> None:
    ours, side = pty.openpty()
    with os.fdopen(side, "w") as stream:
        said(monkeypatch, stream, setting)
        os.write(side, b"end\n")
        text = b""
        while b"end" not in text or not text.endswith(b"\n"):  # it comes in pieces
            text += os.read(ours, 4096)

    os.close(ours)
    assert text.count(b"\n") == lines + 1


@pytest.mark.parametrize("setting", ["", "1"])
def test_without_any_stderr_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    said(monkeypatch, None, setting)

    closed = io.StringIO()
    closed.close()
    said(monkeypatch, closed, setting)
