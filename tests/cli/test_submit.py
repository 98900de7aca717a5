"""`grn submit` with a standing broker: jobs that go on by themselves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.cli.scripts import TRACEBACK, Running, run, script
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("host_server")]

# Says what it was given, where it is and what it sees; all at once, so that no half is read.
TELL = """
import json, os, sys
to, *words = sys.argv[1:]
seen = {name: os.environ.get(name) for name in ("A", "B", "GRN_ARRAY_TASK_ID", "PWD")}
with open(to + ".part", "w") as file:
    json.dump({"words": words, "cwd": os.getcwd(), **seen}, file)
os.rename(to + ".part", to)
"""


@pytest.fixture(scope="module")
def tell(home: Path) -> str:
    """A command line that writes what it is told to the file that is its first word."""
    path = home / "tell.py"
    path.write_text(TELL)
    return f"{sys.executable} {path}"


def submit(*words: str) -> str:
    done = run("grn", "submit", *words)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done.stdout.decode()


def submit_facts(*words: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(submit("--json", *words))
    return jobs


def told(path: Path) -> dict[str, Any]:
    until(path.exists, 20, lambda: f"{path} was never written")
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


def row_of(job_id: str) -> dict[str, Any]:
    rows = json.loads(run("grn", "ps", "--all", "--json").stdout)
    (row,) = [row for row in rows if row["job_id"] == job_id]
    found: dict[str, Any] = row
    return found


def test_g11_whoever_submits_may_leave_and_the_job_runs(tmp_path: Path) -> None:
    begun, go_on, done = tmp_path / "begun", tmp_path / "go on", tmp_path / "done"
    code = f'touch {begun}; while [ ! -e "{go_on}" ]; do sleep 0.05; done; touch {done}'

    said = submit("--", "sh", "-c", code)

    assert re.fullmatch(r"Submitted job \d+: sh -c '.*'\n", said)
    until(begun.exists, 20)
    go_on.touch()
    until(done.exists, 20)


def test_g16_a_job_runs_where_it_was_submitted_or_where_it_is_sent(
    tell: str, tmp_path: Path
) -> None:
    below = tmp_path / "below"
    below.mkdir()

    submit(f"{tell} {tmp_path}/here")
    submit("--cwd", str(below), f"{tell} there")
    relative = str(below.relative_to("/"))  # commands of ours run in /
    submit("--cwd", relative, f"{tell} again")

    assert told(tmp_path / "here")["cwd"] == "/"
    for name in ("there", "again"):
        facts = told(below / name)
        assert (facts["cwd"], facts["PWD"]) == (str(below), str(below))


def test_g17_a_job_sees_its_variables_and_values_may_contain_equals_signs(
    tell: str, tmp_path: Path
) -> None:
    submit("--env", "A=1", "--env", "B=x=y =z", f"{tell} {tmp_path}/one")
    submit("--env", "A=1", f"A=2 B='3 4' {tell} {tmp_path}/two")

    one, two = told(tmp_path / "one"), told(tmp_path / "two")

    assert (one["A"], one["B"]) == ("1", "x=y =z")
    assert (two["A"], two["B"]) == ("2", "3 4")


def test_g18_values_are_put_in_words_and_variables_and_literal_braces_stay(
    tell: str, tmp_path: Path
) -> None:
    words = f"{tell} {tmp_path}/{{lr}} {{lr}} {{{{lr}}}} {{unknown}}"

    submit("--param", "lr=0.1,7", "--env", "A=lr-{lr}", words)

    for value in ("0.1", "7"):
        facts = told(tmp_path / value)
        assert facts["words"] == [value, "{lr}", "{unknown}"]
        assert facts["A"] == f"lr-{value}"


def test_g18_what_a_lease_gives_is_put_in_when_the_job_starts(
    tell: str, tmp_path: Path
) -> None:
    submit("--param", "lr=3", f"A=gpu-{{gpu}} {tell} {tmp_path}/out {{gpu}} {{{{gpu}}}} {{lr}}")

    facts = told(tmp_path / "out")

    assert facts["words"][0] in ("0", "1")
    assert facts["words"][1:] == ["{gpu}", "3"]
    assert facts["A"] == f"gpu-{facts['words'][0]}"


def test_g19_after_two_dashes_all_belongs_to_the_command(tell: str, tmp_path: Path) -> None:
    words = ["a b", "--name", "--", "-q", "*", "$HOME"]

    submit("--", *tell.split(), str(tmp_path / "one"), *words)

    assert told(tmp_path / "one")["words"] == words


def test_g31_each_job_has_a_number_and_an_id_that_can_be_cut_short() -> None:
    one, two = (submit_facts("--name", "same", "--", "true")[0] for _ in range(2))

    assert two["number"] > one["number"]
    assert re.fullmatch("[0-9a-f]{32}", one["job_id"])
    assert one["job_id"] != two["job_id"]
    for ref in (one["job_id"], one["job_id"][:12], str(one["number"]), "same", "@"):
        submit("--after-any", ref, "--", "true")


def test_quietly_only_the_numbers_are_printed() -> None:
    said = submit("--quiet", "--array", "1-3", "--", "true")

    first, *more = map(int, said.split())
    assert said == f"{first}\n{first + 1}\n{first + 2}\n"
    assert len(more) == 2


@pytest.mark.parametrize("flag", ["--sync", "--wait"])
def test_g40_submit_and_wait_returns_the_exit_status(flag: str) -> None:
    fine = run("grn", "submit", "-q", flag, "--", "echo", "not for us")
    failed = run("grn", "submit", flag, "--", "sh", "-c", "echo why; exit 7")

    assert (fine.returncode, fine.stderr) == (0, b"")
    assert re.fullmatch(rb"\d+\n", fine.stdout)
    assert failed.returncode == 7
    assert re.fullmatch(rb"Submitted job \d+: sh -c 'echo why; exit 7'\n", failed.stdout)
    assert re.fullmatch(
        rb"grn: job (\d+) ended with status 7; `grn logs \1` has its output\n", failed.stderr
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--", "sh", "-c", "kill -9 $$"), 137),
        (("--time", "0.5s", "--", "sleep", "600"), 124),
        (("--", "no-such-command-anywhere"), 127),
        (("--array", "3-5", "--", "sh", "-c", "exit {array}"), 3),
    ],
)
def test_g40_statuses_are_those_of_a_foreground_command(
    words: tuple[str, ...], status: int
) -> None:
    done = run("grn", "submit", "--sync", *words)

    assert done.returncode == status, done.stderr
    assert TRACEBACK.encode() not in done.stderr


def test_ctrl_c_ends_the_waiting_and_not_the_job(tmp_path: Path) -> None:
    go_on, done = tmp_path / "go on", tmp_path / "done"
    code = f'while [ ! -e "{go_on}" ]; do sleep 0.05; done; touch {done}'
    with Running("grn", "submit", "--wait", "--", "sh", "-c", code) as running:
        running.until_out("Submitted job ")
        running.interrupt()

        assert running.ended() == 130, running.said()
        assert re.fullmatch(r"grn: job \d+ goes on; `grn wait \d+` .*\n", running.err)
    go_on.touch()
    until(done.exists, 20)


def test_g50_a_loop_that_submits_six_configurations_gives_six_jobs_in_order(
    tell: str, tmp_path: Path
) -> None:
    configurations = [(lr, size) for lr in ("0.1", "0.01") for size in ("8", "16", "32")]

    said = [
        submit(f"{tell} {tmp_path}/{lr}-{size} --lr {lr} --size {size}")
        for lr, size in configurations
    ]

    numbers = [int(re.findall(r"job (\d+): ", one)[0]) for one in said]
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    for lr, size in configurations:
        expected = ["--lr", lr, "--size", size]
        assert told(tmp_path / f"{lr}-{size}")["words"] == expected


def test_a_grid_is_one_job_for_each_combination_in_order(tell: str, tmp_path: Path) -> None:
    grid = ("--param", "lr=0.1,0.01", "--param", "bs=8,16", "--array", "4")
    words = ("--", *tell.split(), f"{tmp_path}/{{lr}}-{{bs}}", "--lr", "{lr}", "--bs", "{bs}")

    jobs = submit_facts(*grid, "--name", "g{lr}", *words)

    points = [(lr, bs) for lr in ("0.1", "0.01") for bs in ("8", "16")]
    assert [job["title"].split()[-4:] for job in jobs] == [
        ["--lr", lr, "--bs", bs] for lr, bs in points
    ]
    assert [job["name"] for job in jobs] == ["g0.1", "g0.1", "g0.01", "g0.01"]
    assert len({job["job_type"] for job in jobs}) == 1
    numbers = [job["number"] for job in jobs]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    for lr, bs in points:
        facts = told(tmp_path / f"{lr}-{bs}")
        assert facts["words"] == ["--lr", lr, "--bs", bs]
        assert facts["GRN_ARRAY_TASK_ID"] == "4"


def test_a_dry_run_submits_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    before = submit_facts("--", "true")[0]["number"]

    said = submit("--dry-run", "--param", "x=1,2", "--", "touch", f"{mark}{{x}}")

    assert said == f"touch {mark}1\ntouch {mark}2\n"
    assert submit_facts("--", "true")[0]["number"] == before + 1
    assert not mark.exists()


def test_a_thousand_jobs_are_submitted_at_once() -> None:
    said = submit("--hold", "--array", "1-1000", "--type", "held", "--", "false")

    first, last = map(int, re.findall(r"Submitted jobs (\d+)-(\d+) \(1,000 jobs\)", said)[0])
    assert last - first == 999


def test_directives_of_a_script_count(tell: str, tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"#!/bin/sh\n# GRN --env A=1 --name scripted\nexec {tell} {tmp_path}/out\n")
    path.chmod(0o755)

    (job,) = submit_facts("--env", "B=2", "--cwd", str(tmp_path), "--", "./train.sh")

    facts = told(tmp_path / "out")
    assert job["name"] == "scripted"
    assert (facts["A"], facts["B"]) == ("1", "2")


def test_a_job_starts_after_the_one_it_waits_for(tell: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    code = f'while [ ! -e "{go_on}" ]; do sleep 0.05; done; touch {tmp_path}/first'
    submit("--name", "first", "--", "sh", "-c", code)

    (job,) = submit_facts("--after", "first", f"{tell} {tmp_path}/second")

    until(lambda: row_of(job["job_id"])["state"] == "queued", 20)
    assert not (tmp_path / "second").exists()
    go_on.touch()
    told(tmp_path / "second")
    assert (tmp_path / "first").exists()


def test_a_job_waits_for_its_begin_time(tmp_path: Path) -> None:
    (job,) = submit_facts("--begin", "+1h", "--", "touch", str(tmp_path / "late"))
    submit("--wait", "--", "true")

    assert row_of(job["job_id"])["state"] == "queued"
    assert not (tmp_path / "late").exists()


def test_unknown_references_are_named_and_nothing_is_submitted(tmp_path: Path) -> None:
    for flag in ("--after", "--after-any"):
        done = run("grn", "submit", "--json", flag, "no-such-job", "--", "touch", str(tmp_path))

        assert done.returncode == 1
        assert "no-such-job" in json.loads(done.stdout)["error"]
        assert done.stderr.startswith(b"grn: ")
        assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_is_gone_is_nothing_to_complain_about(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        script("grn", "submit", "--", "touch", str(mark)),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=30 * PATIENCE,
    )

    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    until(mark.exists, 20)


def test_bytes_that_are_no_text_reach_the_command_and_its_title_is_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff"

    (job,) = submit_facts("--", "touch", os.fsdecode(path))

    until(lambda: os.path.exists(path), 20)
    assert job["title"].endswith("�'")


def test_a_foreground_command_takes_the_same_options(tell: str, tmp_path: Path) -> None:
    options = ("--name", "fore", "--env", "A=1", "--cwd", str(tmp_path), "--by", "bs=32")

    done = run("grn", "run", *options, f"B=2 {tell} out")

    assert (done.returncode, done.stderr) == (0, b"")
    facts = told(tmp_path / "out")
    assert (facts["A"], facts["B"], facts["cwd"]) == ("1", "2", str(tmp_path))


def test_a_foreground_command_that_is_cancelled_from_elsewhere_says_so(tmp_path: Path) -> None:
    mark = tmp_path / "job"
    line = f"sh -c 'echo $GRN_JOB_ID > {mark}.part; mv {mark}.part {mark}; exec sleep 600'"
    with Running("grn", "run", line) as running:
        until(mark.exists, 20, running.said)

        assert grn.attach(mark.read_text().strip()).cancel()

        assert running.ended() == 130, running.said()
        assert re.fullmatch(r"grn: job [0-9]{1,5} was cancelled\n", running.err)
