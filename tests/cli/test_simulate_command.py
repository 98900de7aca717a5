"""`grn simulate` as users call it: a table, JSON, traces by path, clear refusals."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from broker.simulate.cases import WORKLOADS
from broker.simulate.traces import OPENB_COLUMNS, PHILLY_COLUMNS
from tests.cli.scripts import TRACEBACK, Running, run
from tests.cli.test_lists import on_a_terminal
from tests.waiting import processes_marked, until

pytestmark = pytest.mark.e2e

TINY = ("simulate", "--jobs", "40", "--devices", "2", "--policy", "cold", "--policy", "oracle")


def test_simulating_prints_a_table_and_nothing_else() -> None:
    done = run("grn", *TINY)

    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    said = done.stdout.decode()
    assert "sweep: 40 jobs, 2 devices of 24 GiB" in said
    assert re.search(r"^oracle +\S+ +1\.00 ", said, re.MULTILINE)
    assert re.search(r"^ours, cold ", said, re.MULTILINE)


def test_progress_is_shown_on_a_terminal_only() -> None:
    said = on_a_terminal("grn", *TINY)

    assert b"/2 runs" in said
    assert b"ours, cold" in said


def test_the_facts_as_json_on_stdout_or_in_a_file_are_the_same_each_time(
    tmp_path: Path,
) -> None:
    path = tmp_path / "facts.json"
    shown = run("grn", *TINY, "--json")
    written = run("grn", *TINY, "--seed", "1", "--json", str(path))

    facts = json.loads(shown.stdout)
    assert json.loads(path.read_text()) == facts
    assert b"POLICY" in written.stdout
    assert {one["policy"] for one in facts["rows"]} == {"cold", "oracle"}
    assert all(one["dropped"] == 0 and one["jobs"] == 40 for one in facts["runs"])


def test_two_more_gpus() -> None:
    done = run("grn", "simulate", "--jobs", "40", "--devices", "2", "--what-if-devices", "+2")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[1].strip().startswith("2 devices: all done after ")
    assert lines[2].strip().startswith("4 devices: all done after ")


def test_one_more_gpu_for_every_seed_and_load() -> None:
    words = ("--jobs", "30", "--devices", "1", "--what-if-devices", "+1", "--policy", "cold")
    done = run(
        "grn", "simulate", *words, "--seeds", "3", "--load", "1", "--load", "3", "--json"
    )

    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["answers"]
    assert [(one["load"], one["seeds"], one["devices"]) for one in answers] == [
        (1.0, 3, [1, 2]),
        (3.0, 3, [1, 2]),
    ]
    for one in answers:
        assert one["dropped"] == [0, 0]
        assert one["makespan_s"][1] < one["makespan_s"][0]
    shown = run("grn", "simulate", *words, "--seeds", "2").stdout.decode()
    assert "median of 2 seeds" in shown
    assert " 1 device: all done" in shown


def test_a_trace_is_read_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    rows = [f"2017-10-09 0{n % 10}:00:00,{100 + n},1,x,abc" for n in range(60)]
    path.write_text("\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *rows, ""]))
    done = run(
        "grn", "simulate", "--philly", str(path), "--policy", "cold",
        "--jobs", "30", "--seeds", "2",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert b"some.csv: 1 job longer than 158 s left out" in done.stdout
    assert b"philly, load 3, 2 seeds" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "philly"), "give its path with --philly FILE"),
        (("--all",), "--all needs the public traces"),
        (("--workload", "openb", "--trace", "/nothing.csv"), "cannot read the trace"),
        (("--what-if-devices", "-9"), "only 4 devices"),
        (("--trace", "/nothing.csv"), "which kind of trace is /nothing.csv"),
        (("--philly", "/nothing.csv"), "cannot read the trace"),
        (("--json", "/no/such/place.json", "--jobs", "9", "--policy", "cold"), "cannot write"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("grn", "simulate", *words)

    assert done.returncode == 1
    assert done.stderr.decode().startswith("grn simulate: ")
    assert said in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_unknown_options_are_usage_errors_of_the_verb_and_help_has_examples() -> None:
    wrong = run("grn", "simulate", "--wrong")
    shown = run("grn", "simulate", "--help")

    assert wrong.returncode == 2
    assert b"Usage: grn simulate" in wrong.stderr
    assert b"--what-if-devices +2" in shown.stdout
    for name in (*WORKLOADS, *PHILLY_COLUMNS, *OPENB_COLUMNS):
        assert name in shown.stdout.decode()
    assert TRACEBACK not in (wrong.stderr + shown.stderr).decode()


def test_ctrl_c_ends_it_with_all_its_processes_at_once(tmp_path: Path) -> None:
    mark = str(tmp_path)
    words = ("simulate", "--workload", "sweep", "--seeds", "50", "--processes", "2")
    with Running("grn", *words, environment={"GRN_TEST_MARK": mark}) as running:
        until(lambda: len(processes_marked("GRN_TEST_MARK", mark)) >= 3, 20, running.said)
        running.interrupt()
        assert running.ended(10) == 130
        assert TRACEBACK not in running.err

    until(lambda: not processes_marked("GRN_TEST_MARK", mark), 10)


def test_a_plot_is_a_png_or_the_missing_extra_is_named_before_anything_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.png"
    done = run("grn", *TINY, "--plot", str(path))

    if find_spec("matplotlib"):
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert done.returncode == 1
        assert done.stderr.decode().strip().endswith("pip install -e '.[plot]'")
        assert done.stdout == b""
