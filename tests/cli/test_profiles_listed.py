"""`grn profiles`: what a real broker has learned, for people and machines, and forgotten."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.cli.matching import matching, near
from tests.cli.scripts import run

TYPES = (
    "/home/me/train.py::fit",
    "/home/me/train.py::refit",
    "/home/me/other.py::fit",
    "models.train::Model.fit",
    "python train.py --lr #",
    "python train.py --lr # --bs #",
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/home/me/train.py::fit", ["/home/me/train.py::fit"]),
        ("train.py::fit", ["/home/me/train.py::fit"]),
        ("refit", ["/home/me/train.py::refit"]),
        ("Model.fit", ["models.train::Model.fit"]),
        ("train.py --lr #", ["python train.py --lr #"]),
        ("other.py::fit", ["/home/me/other.py::fit"]),
        (
            "fit",
            ["/home/me/other.py::fit", "/home/me/train.py::fit", "models.train::Model.fit"],
        ),
        ("bs #", ["python train.py --lr # --bs #"]),
        ("--bs #", ["python train.py --lr # --bs #"]),
        ("s #", []),
        ("it", []),
        ("rain.py::fit", []),
        ("", []),
        ("/home/me/train.py", []),
    ],
)
def test_the_last_part_of_a_type_is_enough_if_it_is_a_whole_part(
    written: str, meant: list[str]
) -> None:
    assert matching(written, TYPES) == meant


def test_a_whole_name_is_that_type_even_if_others_end_in_it() -> None:
    assert matching("fit", [*TYPES, "fit"]) == ["fit"]


def test_near_ones_are_found_by_each_part_of_their_name() -> None:
    assert near("refti", TYPES)[0] == "/home/me/train.py::refit"
    assert near("train.py::fitt", TYPES)[0] == "/home/me/train.py::fit"
    assert near("zzzz", TYPES) == []


@pytest.fixture
def learned(host_server: grn.Server) -> Iterator[None]:
    """Two types are known, one of them for two values of an argument."""

    @grn.job(type="/home/me/train.py::fit", by="width")
    def fit(width: int) -> int:
        return len(bytearray(width << 20).replace(b"\0", b"\1"))

    fit(40)
    fit(80)
    grn.job(type="/home/me/train.py::refit")(int)("3")
    yield
    for left in {row["job_type"] for row in facts()}:
        run("grn", "profiles", "forget", left)


def facts(*words: str) -> list[dict[str, Any]]:
    done = run("grn", "profiles", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_a_line_for_each_cell_with_what_was_measured_and_is_expected() -> None:
    header, *lines = run("grn", "profiles").stdout.decode().splitlines()
    rows = facts()

    assert header.split() == [
        *("TYPE", "BY", "DEVICE", "CLASS", "RUNS", "PREDICTED", "PEAK", "NEED", "BOUND"),
        *("OOM", "FAILED", "RUN", "UTIL"),
    ]
    assert [line.split()[:2] for line in lines] == [
        ["train.py::fit", "width=40"],
        ["train.py::fit", "width=80"],
        ["train.py::refit", "-"],
    ]
    small, large = (row for row in rows if row["job_type"] == "/home/me/train.py::fit")
    assert (small["by"], large["by"]) == ({"width": 40}, {"width": 80})
    assert 70 << 20 < small["peak_bytes"] < 140 << 20 < large["peak_bytes"] < 220 << 20
    for row in rows:
        assert row["runs"] == 1
        assert row["predicted_bytes"] >= row["peak_bytes"]
        assert row["duration_s"] > 0


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_types_can_be_picked_by_the_end_of_their_names() -> None:
    assert {row["job_type"] for row in facts("refit")} == {"/home/me/train.py::refit"}
    assert len(facts("train.py::fit")) == 2
    assert len(facts("refit", "fit")) == 3


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_forgetting_says_how_many_and_leaves_the_others() -> None:
    done = run("grn", "profiles", "forget", "train.py::fit")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"Forgot 2 profiles of /home/me/train.py::fit")
    assert [row["job_type"] for row in facts()] == ["/home/me/train.py::refit"]


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_an_unknown_type_is_an_error_that_lists_near_ones() -> None:
    for words in (("forget", "refti"), ("refti",)):
        done = run("grn", "profiles", *words)

        assert (done.returncode, done.stdout) == (1, b"")
        assert b"did you mean /home/me/train.py::refit?" in done.stderr
    assert len(facts()) == 3


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_what_may_be_several_types_is_not_forgotten() -> None:
    grn.job(type="/home/me/other.py::fit")(int)("3")

    done = run("grn", "profiles", "forget", "fit")

    assert done.returncode == 1
    assert b"/home/me/other.py::fit or /home/me/train.py::fit" in done.stderr
    assert len(facts("fit")) == 3
    assert run("grn", "profiles", "forget", "other.py::fit", "train.py::fit").returncode == 0
    assert len(facts()) == 1


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize(
    "words",
    [
        ("list", "refit", "--json"),
        ("--json", "list", "refit"),
        ("refit", "--json"),
        ("--json", "refit"),
        ("--json", "--", "refit"),
    ],
)
def test_listing_is_what_is_done_without_a_verb_and_options_stand_anywhere(
    words: tuple[str, ...],
) -> None:
    done = run("grn", "profiles", *words)

    assert done.returncode == 0, done.stderr
    assert [row["job_type"] for row in json.loads(done.stdout)] == ["/home/me/train.py::refit"]


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_options_before_a_verb_are_those_of_the_verb() -> None:
    done = run("grn", "profiles", "--json", "forget", "refit")

    assert json.loads(done.stdout) == {
        "forgotten": 1,
        "job_types": ["/home/me/train.py::refit"],
    }


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_a_verb_with_a_slip_in_it_is_told_from_a_type() -> None:
    done = run("grn", "profiles", "froget", "refit")

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [
        "grn: nothing is known of a job type froget: did you mean `grn profiles forget`?"
    ]


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_showing_a_type_tells_each_cell_and_why_so_much_is_promised() -> None:
    said = run("grn", "profiles", "show", "train.py::fit").stdout.decode()
    shown = json.loads(run("grn", "profiles", "show", "train.py::fit", "--json").stdout)

    head, small, large = said.split("\n\n")
    assert head == "/home/me/train.py::fit: 2 runs, 2 profiles"
    assert small.startswith("width=40 on host\n  promised ")
    assert large.startswith("width=80 on host\n")
    for block in (small, large):
        assert ": what one run took\n" in block
        labels = [line[2:14].strip() for line in block.splitlines()[1:]]
        assert {"promised", "runs", "peak", "run time", "utilisation"} <= set(labels)
    assert shown["job_type"] == "/home/me/train.py::fit"
    rows = facts("train.py::fit")
    for row, told in zip(rows, shown["profiles"], strict=True):
        assert row.items() <= told.items()
        assert told.keys() - row.keys() == {
            *("version", "trust", "stand_in_bytes", "solo_s", "mean_utilisation", "why"),
        }
        assert (told["trust"], told["why"]) == (1, "what one run took")


@pytest.mark.e2e
@pytest.mark.usefixtures("learned")
def test_showing_an_unknown_type_lists_near_ones_and_one_of_several_is_not_guessed() -> None:
    grn.job(type="/home/me/other.py::fit")(int)("3")

    unknown = run("grn", "profiles", "show", "refti", "--json")
    several = run("grn", "profiles", "show", "fit")

    assert unknown.returncode == several.returncode == 1
    assert "did you mean /home/me/train.py::refit?" in json.loads(unknown.stdout)["error"]
    assert b"/home/me/other.py::fit or /home/me/train.py::fit" in several.stderr
    assert several.stdout == b""


@pytest.mark.e2e
@pytest.mark.usefixtures("host_server")
def test_without_any_profile_a_line_says_so_and_forgetting_needs_a_name() -> None:
    assert run("grn", "profiles").stdout == b"No profiles: no job has run yet\n"
    assert facts() == []
    assert run("grn", "profiles", "forget").returncode == 2


@pytest.mark.e2e
@pytest.mark.usefixtures("host_server")
def test_r73_a_command_says_at_its_end_what_it_used_if_that_is_wanted() -> None:
    words = ("grn-run", "--type", "receipt", "true", "true ")

    first = run(*words, environment={"GRN_REPORT": "1"})
    quiet = run(*words)

    assert (first.returncode, quiet.returncode) == (0, 0)
    lines = first.stderr.decode().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("grn: receipt used ") for line in lines)
    assert "not known before" in lines[0]
    assert "on host:" in lines[1]
    assert quiet.stderr == b""


@pytest.mark.e2e
@pytest.mark.usefixtures("host_server")
def test_r73_a_map_of_many_calls_has_few_lines_and_none_where_nobody_reads_them() -> None:
    code = "import grn_zmq as grn; print(sum(grn.job(type='many')(abs).map(range(100))))"

    told = run("python", "-c", code, environment={"GRN_REPORT": "1"})
    quiet = run("python", "-c", code)

    assert told.stdout == quiet.stdout == b"4950\n"
    lines = told.stderr.decode().splitlines()
    assert 1 <= len(lines) <= 5
    assert all(line.startswith("grn: many used ") for line in lines)
    assert quiet.stderr == b""


@pytest.mark.e2e
@pytest.mark.usefixtures("host_server")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--memory", "much"), b"--memory"),
        (("--memory", "0"), b"--memory"),
        (("--priority", "high"), b"--priority"),
        (("--priority", "1000001"), b"--priority"),
        (("--oom-retries", "-1"), b"--oom-retries"),
    ],
)
def test_a_wrong_value_of_run_is_named(words: tuple[str, ...], named: bytes) -> None:
    done = run("grn-run", *words, "--", "true")

    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.e2e
@pytest.mark.usefixtures("host_server")
def test_what_run_was_asked_for_reaches_the_broker() -> None:
    words = ("--memory", "100MiB", "--priority", "7", "--oom-retries", "0", "--enforce")

    done = run("grn-run", "--type", "asked", *words, "--", "true")

    assert done.returncode == 0, done.stderr
    rows = json.loads(run("grn", "ps", "--all", "--json").stdout)
    (row,) = [row for row in rows if row["job_type"] == "asked"]
    assert row["priority"] == 7
    assert row["predicted_bytes"] > 0
    assert not row["measuring"]
