"""What the columns of lists hold, and how wrong values of options are refused."""

import click
import pytest
from click.testing import CliRunner

from grn_zmq.cli import ps
from grn_zmq.cli.common import RISK, check_environment, counted
from grn_zmq.cli.listing import profile_order, short_names
from grn_zmq.cli.run import run
from grn_zmq.cli.start import start
from tests.builders import a_job_row, a_profile_row


@pytest.mark.parametrize(
    ("attempt", "measuring", "text"),
    [
        (1, False, "running"),
        (1, True, "running (measuring)"),
        (2, False, "running (2)"),
        (3, True, "running (3, measuring)"),
    ],
)
def test_the_state_tells_what_is_unusual(attempt: int, measuring: bool, text: str) -> None:
    row = a_job_row(attempt=attempt, measuring=measuring)

    assert ps._cells(row, "fit")[1] == text


def test_a_table_cuts_long_reasons_and_shows_the_name_before_the_type() -> None:
    row = a_job_row(why="x" * 600, name="")

    cells = ps._cells(row, "train.py::fit")

    assert cells[-2] == "train.py::fit"
    assert len(cells[-1]) == ps.MAX_WHY
    assert cells[-1].endswith("…")
    assert ps._cells(a_job_row(why="y" * 200), "fit")[-2:] == ("fit", "y" * 200)


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
