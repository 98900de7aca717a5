"""Options in the leading comments of a script: which there are, and which count."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from grn_zmq.cli.queueing.directives import Directive, directives_in, script_in
from grn_zmq.cli.submit import submit

pytestmark = pytest.mark.usefixtures("home")

SCRIPT = """#!/bin/sh
# A training. GRN runs it.

# GRN --time 2h --name 'first fit'
#GRN --env A=1 --env B=1   # both are needed
#  GRN --param lr=0.1,0.01
echo {lr}
# GRN --priority 7
"""


def dry(*words: str) -> Result:
    return CliRunner().invoke(submit, ["--dry-run", "--json", *words])


def jobs_of(*words: str) -> list[dict[str, Any]]:
    planned = dry(*words)
    assert planned.exit_code == 0, planned.output
    jobs: list[dict[str, Any]] = json.loads(planned.stdout)
    return jobs


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return path


def test_directives_are_the_lines_before_the_first_that_is_no_comment() -> None:
    assert directives_in(SCRIPT, "train.sh") == [
        Directive(4, ("--time", "2h", "--name", "first fit")),
        Directive(5, ("--env", "A=1", "--env", "B=1")),
        Directive(6, ("--param", "lr=0.1,0.01")),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# GRN is nice\n", "import os\n# GRN --hold\n", "#GRNX --hold", "\0\1"]
)
def test_other_lines_say_nothing(text: str) -> None:
    assert directives_in(text, "x") == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["./train.sh", "x"], True),
        (["python3.11", "train.sh", "x"], True),
        (["python", "-u", "-X", "dev", "-O", "train.sh"], True),
        (["/usr/bin/bash", "-o", "pipefail", "-e", "train.sh"], True),
        (["python", "-m", "train.sh"], False),
        (["python", "-c", "train.sh"], False),
        (["bash", "-lc", "train.sh"], False),
        (["python"], False),
        (["train.sh"], False),
        (["python", "absent.py"], False),
        (["echo", "train.sh"], False),
        (["python", "."], False),
    ],
)
def test_the_script_is_the_first_word_or_follows_its_interpreter(
    script: Path, words: list[str], found: bool
) -> None:
    name = script_in(words, str(script.parent))

    assert (name is not None and os.path.samefile(name, script)) == found


def test_a_script_on_path_is_found_there(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")

    assert script_in(["train.sh"], "/") == str(script)


def test_a_script_holds_options_for_its_own_jobs(script: Path) -> None:
    jobs = jobs_of("--", "sh", str(script), "{lr}")

    assert [job["command"][2] for job in jobs] == ["0.1", "0.01"]
    for job in jobs:
        assert (job["time_limit_s"], job["name"], job["priority"]) == (7200.0, "first fit", 0)
        assert job["variables"] == {"A": "1", "B": "1"}


def test_the_command_line_wins_name_by_name(script: Path) -> None:
    given = ("--time", "1h", "--env", "B=2", "--env", "C=3", "--param", "lr=5")

    (job,) = jobs_of(*given, "--", "sh", str(script), "{lr}")

    assert (job["time_limit_s"], job["name"]) == (3600.0, "first fit")
    assert job["variables"] == {"A": "1", "B": "2", "C": "3"}
    assert job["command"][2] == "5"


def test_each_command_has_the_options_of_its_own_script(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("# GRN --exclusive\n")

    *_, last, plain = jobs_of(
        f"sh {script} {{lr}}", f"{sys.executable} -u {other}", "echo plain"
    )

    assert (last["exclusive"], last["name"]) == (True, "")
    assert (plain["exclusive"], plain["name"]) == (False, "")


def test_a_relative_script_is_found_where_it_will_run(script: Path) -> None:
    jobs = jobs_of("--cwd", str(script.parent), "--", "./train.sh", "{lr}")

    assert [job["name"] for job in jobs] == ["first fit", "first fit"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--time soon", "'soon' is no time"),
        ("--no-such-thing", "No such option"),
        ("--gpus many", "'many' is no number of GPUs"),
        ("--wait", "No such option"),
        ("--help", "No such option"),
        ("--hold now", "unexpected extra argument"),
        ("--name 'x", "quotes do not match"),
        ("--param lr", "has no values"),
    ],
)
def test_a_bad_directive_names_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(f"#!/usr/bin/env python\n\n# GRN {line}\n")

    refused = dry("--", "python", str(path))

    assert refused.exit_code == 2
    assert f"{path}, line 3: " in refused.stderr
    assert why in refused.stderr


def test_a_bad_directive_names_the_script_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fit.sh").write_text("#!/bin/sh\n# GRN --no-such-thing\n")
    monkeypatch.chdir(tmp_path)

    assert "Error: ./fit.sh, line 2: " in dry("--", "./fit.sh").stderr


def test_quotes_that_do_not_match_are_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match=r"x\.py, line 1: quotes do not match"):
        directives_in("# GRN --name 'a", "x.py")


def test_what_cannot_be_read_holds_no_options(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 1000)

    for name in ("pipe", "binary"):
        (job,) = jobs_of("--", "python", str(tmp_path / name))
        assert job["name"] == ""
