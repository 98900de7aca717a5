"""What the columns of lists hold, and how wrong values of options are refused."""

import time
from typing import Any

import click
import pytest
from click.testing import CliRunner

from grn_zmq.cli.common import RISK, check_environment, counted
from grn_zmq.cli.jobtable import cells_of
from grn_zmq.cli.listing import part_of, profile_order, short_names
from grn_zmq.cli.ps import chosen
from grn_zmq.cli.run import run
from grn_zmq.cli.start import start
from grn_zmq.cli.states import (
    CODES,
    exit_status_of,
    jobs_named,
    lines_about,
    number_ranges,
    parse_states,
    state_of,
)
from grn_zmq.cli.tables import columns_of, cut_to, fit
from grn_zmq.cli.when import iso, local, times_of
from grn_zmq.units import GIB, MIB
from tests.builders import a_job_row, a_profile_row


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"measuring": False}, "-"),
        ({"pid": 4711, "measuring": False}, "pid 4711"),
        ({"pid": 4711}, "pid 4711, measuring"),
        ({"attempt": 2}, "measuring, attempt 2"),
        ({"state": "queued", "measuring": False, "why": "waiting"}, "waiting"),
        (
            {"state": "queued", "measuring": False, "attempt": 3, "why": "waiting"},
            "attempt 3: waiting",
        ),
    ],
)
def test_the_last_column_tells_what_is_unusual_of_a_live_job(
    changes: dict[str, Any], text: str
) -> None:
    assert cells_of(a_job_row(**changes), "fit")[-1] == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "succeeded"}, "-"),
        ({"state": "succeeded", "kind": "command"}, "exit 0"),
        ({"state": "failed", "exit_status": 3, "why": "exited with status 3"}, "exit 3"),
        (
            {"state": "failed", "kind": "command", "exit_status": 127},
            "exit 127 (no such command)",
        ),
        ({"state": "killed", "signal": 9, "why": "killed by signal 9"}, "SIGKILL"),
        ({"state": "killed", "signal": 50}, "signal 50"),
        ({"state": "failed", "why": "ValueError: no"}, "ValueError: no"),
        ({"state": "failed", "why": "no such directory"}, "no such directory"),
        ({"state": "lost", "why": "its worker died"}, "its worker died"),
    ],
)
def test_g28_the_last_column_tells_how_a_job_ended(changes: dict[str, Any], text: str) -> None:
    row = a_job_row(**{"measuring": False, **changes})

    assert cells_of(row, "fit")[-1] == text


def test_memory_is_use_of_lease_then_peak_and_before_what_is_expected() -> None:
    runs = a_job_row(used_bytes=90 * MIB, lease_bytes=GIB)
    waits = a_job_row(state="queued", lease_bytes=0, predicted_bytes=5 * MIB)
    over = a_job_row(state="succeeded", lease_bytes=0, peak_bytes=7 * MIB)

    assert [cells_of(row, "")[3] for row in (runs, waits, over)] == [
        "0.1/1.0 GiB",
        "5.0 MiB",
        "7.0 MiB",
    ]
    assert part_of(0, 0) == "0.0/0.0 B"


def test_a_job_is_called_by_its_name_its_command_or_its_type() -> None:
    rows = [a_job_row(title="sleep 1"), a_job_row(name="", title="sleep 1"), a_job_row(name="")]

    assert [cells_of(row, "train.py::fit")[6] for row in rows] == [
        "fit: sleep 1",
        "sleep 1",
        "train.py::fit",
    ]


def test_a_held_job_has_a_state_of_its_own() -> None:
    row = a_job_row(state="queued", waits_for="held")

    assert state_of(row) == "held"
    assert cells_of(row, "")[1] == "H held"
    assert cells_of(a_job_row(state="queued"), "")[1] == "PD queued"


def test_states_are_written_in_words_and_codes() -> None:
    assert parse_states("PD, r,Failed,timeout") == {"queued", "running", "failed", "timed-out"}
    assert parse_states(",".join(CODES.values())) == set(CODES)
    with pytest.raises(ValueError, match=r"'gone' is no state: write queued \(PD\)"):
        parse_states("R,gone")


def test_jobs_are_chosen_by_state_name_and_type() -> None:
    rows = [
        a_job_row(1, name="lr-1"),
        a_job_row(2, name="", title="python train.py", state="queued", waits_for="held"),
        a_job_row(3, name="lr-3", job_type="other.py::fit", state="queued"),
    ]

    assert [row.number for row in chosen(rows, frozenset({"queued"}), None, None)] == [2, 3]
    assert [row.number for row in chosen(rows, frozenset({"held"}), None, None)] == [2]
    assert [row.number for row in chosen(rows, None, "lr-*", None)] == [1, 3]
    assert [row.number for row in chosen(rows, None, "*train.py", None)] == [2]
    assert [row.number for row in chosen(rows, None, None, "train.py::fit")] == [1, 2]
    assert [row.number for row in chosen(rows, None, "lr-*", "fit")] == [1, 3]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"state": "succeeded"}, 0),
        ({"state": "failed", "exit_status": 7}, 7),
        ({"state": "failed"}, 1),
        ({"state": "timed-out", "signal": 15}, 124),
        ({"state": "killed", "signal": 9}, 137),
        ({"state": "cancelled", "signal": 15}, 130),
        ({"state": "oom"}, 1),
        ({"state": "lost"}, 1),
    ],
)
def test_a_job_that_was_waited_for_gives_a_status(changes: dict[str, Any], status: int) -> None:
    assert exit_status_of(a_job_row(**changes)) == status


def test_numbers_are_written_as_ranges() -> None:
    assert number_ranges([7, 3, 4, 5, 5]) == "3-5, 7"
    assert (jobs_named([3]), jobs_named([3, 4])) == ("job 3", "jobs 3-4")


def test_what_is_the_same_of_many_jobs_is_said_once() -> None:
    told = [(3, "was lost"), (4, "was cancelled"), (6, "was cancelled"), (5, "was cancelled")]

    assert lines_about(told) == ["job 3 was lost", "jobs 4-6: each was cancelled"]


def test_times_come_from_how_long_ago_it_was() -> None:
    ended = a_job_row(state="failed", age_s=100.0, ended_s=10.0, run_s=30.0)
    waits = a_job_row(state="queued", device="", age_s=100.0)

    times = times_of(ended, 1000.0)
    assert (times.submitted_s, times.started_s, times.ended_s) == (900.0, 960.0, 990.0)
    assert times_of(waits, 1000.0).started_s is None
    assert times_of(a_job_row(run_s=2.0), 1000.0).started_s == 998.0


def test_times_are_utc_for_machines_and_local_for_people() -> None:
    assert iso(1e9 + 0.25) == "2001-09-09T01:46:40.250Z"
    assert iso(0.9996) == "1970-01-01T00:00:01.000Z"
    assert iso(None) is None
    assert local(1e9) == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1e9))


TABLE = [["JOB", "NAME", "REASON"], ["1", "n" * 30, "r" * 50], ["2", "short", ""]]


def test_a_table_without_a_terminal_is_never_cut() -> None:
    lines = fit(TABLE, 2, None)

    assert lines[1] == ["1  ", "n" * 30, "r" * 50]
    assert lines[2] == ["2  ", "short".ljust(30), ""]


@pytest.mark.parametrize("width", [120, 80, 60, 40, 30, 20, 10, 5])
def test_a_table_fits_its_terminal(width: int) -> None:
    lines = ["  ".join(row).rstrip() for row in fit(TABLE, 2, width)]

    assert max(map(len, lines)) <= width
    assert ("…" in lines[1]) == (9 < width < 87)
    assert width < 20 or lines[0].split() == ["JOB", "NAME", "REASON"]


def test_what_is_short_leaves_its_room_to_its_neighbour() -> None:
    table = [["NAME", "REASON"], ["fit", "r" * 100]]

    assert fit(table, 2, 40)[1] == ["fit ", f"{'r' * 33}…"]
    table = [["NAME", "REASON"], ["n" * 100, "-"]]
    assert fit(table, 2, 40)[1] == [f"{'n' * 31}…", "-"]


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("日本") == 4
    assert columns_of("e\u0301") == 1
    assert cut_to("日本語", 4) == "日…"
    assert cut_to("abc", 3) == "abc"


def test_types_are_short_where_that_says_which_is_meant() -> None:
    names = short_names(["/a/train.py::fit", "/b/train.py::fit", "/a/train.py::test", ""])

    assert names == {
        "/a/train.py::fit": "/a/train.py::fit",
        "/b/train.py::fit": "/b/train.py::fit",
        "/a/train.py::test": "train.py::test",
        "": "",
    }


def test_profiles_are_in_the_order_of_types_and_of_numbers() -> None:
    values = [8, 16.5, 128, 1024, "large", "small"]
    rows = [a_profile_row(by={"batch_size": one}) for one in values]
    other = a_profile_row(job_type="a.py::first", by={"batch_size": 9})

    found = sorted([*reversed(rows), other], key=profile_order)

    assert found == [other, *rows]


def test_counts_are_spelled_as_people_do() -> None:
    assert [counted(n, "job") for n in (0, 1, 2, 1200)] == [
        "0 jobs",
        "1 job",
        "2 jobs",
        "1,200 jobs",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--priority", "high"), "'high' is no whole number from -1000000 to 1000000"),
        (("--priority", "1000001"), "1000001 is not from -1000000 to 1000000"),
        (("--oom-retries", "-1"), "-1 is not from 0 to 100"),
        (("--max-jobs", "some"), "'some' is no whole number from 1"),
        (("--max-jobs", "0"), "0 is not from 1"),
    ],
)
def test_what_is_no_number_is_refused_in_plain_words(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(run, [*words, "--", "true"])

    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize("value", ["many", "0", "0.9", "nan", "-1", "0.00009"])
def test_a_wrong_risk_of_the_environment_is_a_usage_error_of_start_and_run(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    done = CliRunner().invoke(start, ["--devices", "host"], env={"GRN_OVERFLOW": value})
    monkeypatch.setenv("GRN_OVERFLOW", value)

    with pytest.raises(click.UsageError, match=r"GRN_OVERFLOW.*from 0\.0001") as caught:
        check_environment()

    assert done.exit_code == caught.value.exit_code == 2
    assert "GRN_OVERFLOW" in done.output
    assert "from 0.0001 to 0.5" in done.output


@pytest.mark.parametrize("value", ["", "0.0001", "0.5"])
def test_a_risk_that_can_be_taken_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GRN_OVERFLOW", value)

    check_environment()

    assert not value or RISK.convert(value, None, None) == float(value)
