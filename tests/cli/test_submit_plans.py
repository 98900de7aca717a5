"""What `grn submit` would submit, and what it refuses, without any broker."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grn_zmq.cli.queueing.commands import forms, title_of
from grn_zmq.cli.run import run
from grn_zmq.cli.scalars import value_of
from grn_zmq.cli.states import number_ranges
from grn_zmq.cli.submit import submit
from grn_zmq.context import Context
from grn_zmq.submission import context_blob
from grn_zmq.units import GIB

pytestmark = pytest.mark.usefixtures("home")


def dry(*words: str) -> Result:
    return CliRunner().invoke(submit, ["--dry-run", *words])


def jobs_of(*words: str) -> list[dict[str, Any]]:
    planned = dry("--json", *words)
    assert planned.exit_code == 0, planned.output
    jobs: list[dict[str, Any]] = json.loads(planned.stdout)
    return jobs


def refused(*words: str) -> str:
    answer = dry(*words)
    assert answer.exit_code == 2, answer.output
    return " ".join(answer.stderr.split())


GRID = ("--param", "lr=0.1,0.01", "--param", "bs=8,16")
TRAIN = ("--", "python", "train.py", "--lr", "{lr}", "--bs", "{bs}")


def test_a_dry_run_prints_the_commands_of_a_grid_in_order() -> None:
    assert dry(*GRID, *TRAIN).stdout.splitlines() == [
        "python train.py --lr 0.1 --bs 8",
        "python train.py --lr 0.1 --bs 16",
        "python train.py --lr 0.01 --bs 8",
        "python train.py --lr 0.01 --bs 16",
    ]


def test_a_dry_run_names_the_options_that_are_not_the_usual_ones() -> None:
    words = ("--name", "fit {lr}", "--time", "90m", "--retries", "1", "--env", "A=b c")

    planned = dry(*words, "--param", "lr=1", "--by", "lr", "--hold", "--", "echo", "{lr}")

    assert planned.stdout == (
        "echo 1  # --name 'fit 1' --by lr=1 --retries 1 --time 1h30m --env 'A=b c' --hold\n"
    )


def test_a_dry_run_says_when_a_begin_time_is() -> None:
    (line,) = dry("--begin", "2031-11-19T08:00", "--", "true").stdout.splitlines()

    assert line == "true  # --begin '2031-11-19 08:00:00'"


def test_the_facts_of_a_dry_run_are_pinned() -> None:
    words = ("--name", "n", "--memory", "6GiB", "-t", "2h", "--begin", "+1h", "--hold")
    more = ("--after", "3-5", "--after", "train", "--after-any", "@", "--on-end", "notify")
    rest = ("--exclusive", "--priority", "3", "--retries", "1", "--oom-retries", "0")
    needs = ("--resource", "cpu=4", "--resource", "licence=1.0", "--by", "bs=32")

    (job,) = jobs_of(*words, *more, *rest, *needs, "--timeout", "5m", "A=1 echo a b")

    assert job == {
        "title": "echo a b",
        "command": ["echo", "a", "b"],
        "name": "n",
        "job_type": "echo a b",
        "by": {"bs": 32},
        "variables": {"A": "1"},
        "cwd": os.getcwd(),
        "memory_bytes": 6 * GIB,
        "gpus": 1,
        "share": "",
        "queue": "",
        "resources": {"cpu": "4", "licence": "1"},
        "exclusive": True,
        "priority": 3,
        "timeout_s": 300.0,
        "time_limit_s": 7200.0,
        "grace_s": 5.0,
        "retries": 1,
        "oom_retries": 0,
        "enforce": False,
        "after": ["3-5", "train"],
        "after_any": ["@"],
        "begin_s": 3600.0,
        "held": True,
        "on_end": "notify",
        "environment": "",
    }


def test_values_stand_in_words_name_variables_type_and_by() -> None:
    given = ("--name", "run-{lr}", "--env", "LR={lr}", "--type", "fit-{lr}", "--by", "x={lr}")

    jobs = jobs_of("--param", "lr=0.1,2", *given, "--", "echo", "{lr}", "{{lr}}", "{gpu}")

    facts = [(job["name"], job["variables"], job["job_type"], job["by"]) for job in jobs]
    assert facts == [
        ("run-0.1", {"LR": "0.1"}, "fit-0.1", {"x": 0.1}),
        ("run-2", {"LR": "2"}, "fit-2", {"x": 2}),
    ]
    assert jobs[0]["command"] == ["echo", "0.1", "{lr}", "{gpu}"]


def test_a_grid_is_of_one_type_that_single_commands_have_too() -> None:
    grid = {job["job_type"] for job in jobs_of(*GRID, *TRAIN)}
    single = {job["job_type"] for job in jobs_of("python train.py --lr 0.3 --bs 4")}

    assert grid == single == {"python train.py --lr # --bs #"}


def test_by_takes_the_value_of_a_parameter_and_numbers_are_numbers() -> None:
    words = ("--param", "m=small,2,0.5", "--by", "m", "--by", "n=1e3", "--", "echo", "{m}")

    assert [job["by"] for job in jobs_of(*words)] == [
        {"m": "small", "n": 1000.0},
        {"m": 2, "n": 1000.0},
        {"m": 0.5, "n": 1000.0},
    ]


def test_by_means_the_same_where_jobs_are_submitted_and_where_they_are_set() -> None:
    (job,) = jobs_of("--by", "half=True", "--by", "fast=true", "--", "echo")

    assert job["by"] == {"half": value_of("True"), "fast": value_of("true")}
    assert job["by"] == {"half": True, "fast": "true"}


def test_an_array_is_seen_by_its_jobs_wherever_they_look() -> None:
    jobs = jobs_of("--array", "2-6:2", "--name", "t{index}", "--", "echo", "{array}", "{index}")

    assert [job["command"][1:] for job in jobs] == [["2", "2"], ["4", "4"], ["6", "6"]]
    assert [job["variables"] for job in jobs] == [
        {"GRN_ARRAY_TASK_ID": index} for index in ("2", "4", "6")
    ]
    assert [job["name"] for job in jobs] == ["t2", "t4", "t6"]


def test_assignments_before_a_command_line_are_variables() -> None:
    (job,) = jobs_of("--env", "A=0", "A=1 B='x y=z' python x.py C=3")
    (words,) = jobs_of("--", "A=1", "python")

    assert job["variables"] == {"A": "1", "B": "x y=z"}
    assert job["command"] == ["python", "x.py", "C=3"]
    assert (words["variables"], words["command"]) == ({}, ["A=1", "python"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1", (1, "")), ("0", (0, "")), ("2", (2, "")), ("-1", (-1, "")), ("all", (-1, "")),
     ("0.50", (1, "0.5")), ("1/3", (1, "1/3"))],
)  # fmt: skip
def test_devices_are_whole_or_a_part_of_one(written: str, meant: tuple[int, str]) -> None:
    (job,) = jobs_of("-G", written, "--", "echo")

    assert (job["gpus"], job["share"]) == meant


def test_a_dry_run_names_declared_needs() -> None:
    two = dry("--gpus", "2", "--resource", "cpu=4.0", "--resource", "x=0.5", "--", "echo")
    part = dry("--gpus", "0.25", "--", "echo")

    assert two.stdout == "echo  # --gpus 2 --resource cpu=4 --resource x=0.5\n"
    assert part.stdout == "echo  # --gpus 0.25\n"


def test_several_command_lines_are_several_jobs() -> None:
    jobs = jobs_of("python a.py --lr 0.1", "python b.py ")

    assert [job["title"] for job in jobs] == ["python a.py --lr 0.1", "python b.py"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--param", "lr=1", "--", "echo"), "{lr} occurs nowhere in: echo"),
        (("--param", "lr=1", "--", "echo", "{{lr}}"), "{lr} occurs nowhere"),
        (("--by", "bs", "--", "echo"), "--by bs: no --param has this name"),
        (("--by", "a b=3", "--", "echo"), "'a b' is no name"),
        (("--by", f"n={10**30}", "--", "echo"), "not a number of 64 bits"),
        (("--gpus", "2.5", "--", "echo"), "2.5 GPUs cannot be had: it is a whole number"),
        (("--gpus", "some", "--", "echo"), "'some' is no number of GPUs: write 0, 1, 2"),
        (("--gpus", "-3", "--", "echo"), "'-3' is no number of GPUs"),
        (("--gpus", "0", "--exclusive", "--", "echo"), "gpus=0 and exclusive= exclude each"),
        (("--gpus", "0", "--memory", "1G", "--", "echo"), "gpus=0 and memory= exclude each"),
        (("--resource", "cpu", "--", "echo"), "write NAME=AMOUNT, such as cpu=4"),
        (("--resource", "cpu=many", "--", "echo"), "cpu: 'many' is not an amount"),
        (("--resource", "cpu=0", "--", "echo"), "cpu: a job that needs none of it leaves it"),
        (("--resource", "a b=1", "--", "echo"), "'a b' is no name of a resource"),
        (
            ("--resource", "cpu=1", "--param", "cpu=1,2", "--", "echo", "{cpu}"),
            "because it needs the resource cpu: take another name",
        ),
        (("--memory", "lots", "--", "echo"), "'lots' is no size"),
        (("--time", "soon", "--", "echo"), "'soon' is no time"),
        (("--begin", "2020-01-01", "--", "echo"), "is in the past"),
        (("--array", "5-1", "--", "echo"), "write the smaller one first"),
        (("--env", "A", "--", "echo"), "write NAME=VALUE"),
        (("--env", "=1", "--", "echo"), "write NAME=VALUE"),
        (("--env", "A=\udcff", "--", "echo"), "must be text in UTF-8"),
        (("--env", f"A={'x' * 70_000}", "--", "echo"), "70,000 characters: at most 65,536"),
        (("--cwd", "/no/such/place", "--", "echo"), "is no directory"),
        (("--name", "a\nb", "--", "echo"), "must be a printable text"),
        (("--type", "", "--", "echo"), "must be a printable text of 1"),
        (("--on-end", "ftp://x/y", "--", "echo"), "a URL with http"),
        (("--priority", "high", "--", "echo"), "no whole number"),
        (("--array", "1-400", "--param", f"x={'1,' * 400}1", "--", "echo", "{x}"), "at most"),
        (("python", "train.py"), "is this one command or 2?"),
        (("A=1",), "an empty command"),
        ((), forms("submit")),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(words: tuple[str, ...], why: str) -> None:
    assert why in refused(*words)


def test_a_script_that_would_not_be_found_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("echo\n")

    assert "write ./train.sh" in refused("--cwd", str(tmp_path), "--", "train.sh")
    assert dry("--cwd", str(tmp_path), "--", "./train.sh").exit_code == 0


def test_a_relative_directory_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)

    assert [job["cwd"] for job in jobs_of("--cwd", "below", "--", "echo")] == [
        str(tmp_path / "below")
    ]


def test_a_directory_that_is_gone_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    told = dry("--json", "--", "echo")

    assert told.exit_code == 1
    assert told.stderr.startswith("grn: the working directory does not exist any more")


def test_without_a_broker_nothing_is_submitted_and_the_status_says_so() -> None:
    told = CliRunner().invoke(submit, ["--json", "--", "echo"])

    assert told.exit_code == 3
    assert told.stderr.startswith("grn: no broker is running")
    assert json.loads(told.stdout)["error"] in told.stderr.strip()


def test_settings_are_defaults_that_flags_overrule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRN_JOB__PRIORITY", "7")
    monkeypatch.setenv("GRN_JOB__TIME_LIMIT", "1h")

    (job,) = jobs_of("--", "echo")
    (other,) = jobs_of("--priority", "1", "--time", "2h", "--", "echo")

    assert (job["priority"], job["time_limit_s"]) == (7, 3600.0)
    assert (other["priority"], other["time_limit_s"]) == (1, 7200.0)


def test_a_title_is_one_line_that_cannot_act_on_a_terminal() -> None:
    assert title_of(["echo", "a b", "x\n\x1b[2J\udcff"]) == "echo 'a b' 'x��[2J�'"
    assert len(title_of(["x" * 10_000])) == 4096


def test_numbers_are_written_as_a_reference_that_means_them_all() -> None:
    assert number_ranges([12], ",") == "12"
    assert number_ranges([12, 13, 14], ",") == "12-14"
    assert number_ranges([1, 2, 4, 6, 7], ",") == "1-2,4,6-7"


def test_the_help_of_both_verbs_says_whose_the_directives_are() -> None:
    for verb in (submit, run):
        shown = CliRunner().invoke(verb, ["--help"]).output
        assert "# GRN" in shown


def test_a_context_with_another_directory_is_as_if_the_process_had_gone_there() -> None:
    elsewhere = Context.capture({"A": "1"}, "/usr")

    assert (elsewhere.cwd, elsewhere.environment["PWD"]) == ("/usr", "/usr")
    assert elsewhere.environment["A"] == "1"
    assert Context.capture().cwd == os.getcwd()
    assert Context.from_bytes(context_blob({}, "/usr").data).cwd == "/usr"
    assert Context.from_bytes(context_blob({}).data).cwd == os.getcwd()
