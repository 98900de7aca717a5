"""`grn ps`: what the table and the JSON say of jobs in all their states."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import alive
from tests.cli.terminals import on_a_terminal
from tests.cli.verbs import cancel_all, facts, row_of, said, submit, until_ended, until_state
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

SMALL = ("--memory", "10M", "--type", "small")


@pytest.fixture(scope="module", autouse=True)
def broker(small_server: grn.Server) -> Iterator[grn.Server]:
    yield small_server
    cancel_all()


def line_of(number: int, *words: str) -> str:
    lines = said("ps", *words).splitlines()
    return next(line for line in lines if line.split()[0] == str(number))


def test_r63_who_waits_for_memory_shows_both_numbers() -> None:
    running = [submit("--memory", "900M", "--type", "large", "--", "sleep", "60") for _ in "ab"]
    for number in running:
        until_state(number, "running")
    waits = submit("--memory", "700M", "--type", "next", "--", "sleep", "60")

    line = line_of(waits)

    assert "PD queued" in line
    assert "waiting for memory: needs 700.0 MiB" in line
    assert "100.0 MiB free" in line
    assert row_of(waits)["waits_for"] == "no-room"
    cancel_all()


def test_r65_a_blocked_twin_waits_for_the_profile_of_its_type() -> None:
    first = submit("--type", "twin", "--", "sleep", "60")
    until_state(first, "running")
    second = submit("--type", "twin", "--", "sleep", "60")

    assert "waiting for profile of twin" in line_of(second)
    assert "measuring" in line_of(first)
    cancel_all()


def test_g26_g27_the_table_has_id_status_command_allocation_and_the_pid_of_the_command(
    home: Path,
) -> None:
    file = home / "pid"
    number = submit(*SMALL, "--", "sh", "-c", f"echo $$ > {file}; exec sleep 60")
    until(lambda: file.exists() and file.read_text().strip(), 20)
    until(lambda: row_of(number)["pid"], 20, lambda: str(row_of(number)))

    row, line = row_of(number), line_of(number)

    assert row["pid"] == int(file.read_text())
    assert alive(row["pid"])
    for part in (str(number), "R running", row["device"], "sh -c", f"pid {row['pid']}"):
        assert part in line
    assert "/10.0 MiB" in line
    cancel_all()


@pytest.mark.parametrize(
    ("command", "state", "told"),
    [
        ("exit 3", "failed", "exit 3"),
        ("kill -KILL $$", "killed", "SIGKILL"),
        ("exec /no/such/command", "failed", "exit 127"),
    ],
)
def test_g28_how_a_job_failed_is_shown_until_it_is_cleaned(
    command: str, state: str, told: str
) -> None:
    number = submit(*SMALL, "--", "sh", "-c", command)
    until_ended(number)

    assert state in line_of(number, "--all")
    assert told in line_of(number, "--failed")
    assert told in said("show", str(number))
    assert row_of(number)["code"] == {"failed": "F", "killed": "K"}[state]
    said("clean", str(number))
    assert number not in [row["number"] for row in facts("ps", "--all")]


def test_g28_a_start_error_is_shown(home: Path) -> None:
    gone = home / "gone"
    gone.mkdir()
    number = submit(*SMALL, "--cwd", str(gone), "--hold", "--", "true")
    gone.rmdir()
    said("release", str(number))
    until_ended(number)

    assert "F failed" in line_of(number, "--failed")
    assert row_of(number)["exit_status"] == 126 or str(gone) in row_of(number)["why"]


def test_g29_a_finished_job_of_one_second_ran_one_second() -> None:
    number = submit(*SMALL, "--", "sleep", "1")
    until_ended(number)

    row = row_of(number)
    assert row["run_s"] == pytest.approx(1.0, abs=0.3 * PATIENCE)
    assert f"{row['run_s']:.1f} s" in line_of(number, "--all")


def test_times_are_iso_and_in_order() -> None:
    number = submit(*SMALL, "--", "true")
    until_ended(number)

    row = row_of(number)
    texts = [row["submitted_at"], row["started_at"], row["ended_at"]]
    times = [datetime.fromisoformat(text).timestamp() for text in texts]
    assert all(text.endswith("Z") for text in texts)
    assert times == sorted(times)
    assert time.time() - 60 * PATIENCE < times[0] <= times[-1] <= time.time() + 1


def test_jobs_are_chosen_by_state_name_type_number_and_count() -> None:
    held = submit(*SMALL, "--name", "pick-a", "--hold", "--", "true")
    over = submit(*SMALL, "--name", "pick-b", "--", "true")
    other = submit("--memory", "10M", "--type", "other", "--name", "pick-c", "--", "false")
    until_ended(over, other)

    def numbers(*words: str) -> list[int]:
        return [row["number"] for row in facts("ps", *words)]

    assert numbers() == numbers("--state", "H") == numbers("--state", "queued") == [held]
    assert numbers("--state", "CD", "--name", "pick-*") == [over]
    assert numbers("--name", "pick-*", "--all") == [held, over, other]
    assert numbers("--failed", "--type", "other") == [other]
    assert numbers("--all", "--limit", "2") == [over, other]
    assert numbers(f"{held}-{other}") == [held, over, other]
    assert numbers("pick-b", "@") == [over, other]
    assert numbers("--state", "R") == []
    assert said("ps", "--state", "R").startswith("No jobs")
    cancel_all()


def test_on_a_terminal_lines_are_cut_to_its_width_and_states_are_coloured() -> None:
    number = submit(*SMALL, "--hold", "--", "echo", "x" * 300)

    wide = on_a_terminal("grn", "ps", columns=100).decode()
    plain = on_a_terminal("grn", "ps", columns=100, environment={"NO_COLOR": "1"}).decode()

    assert "\x1b[36mH held" in wide
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 100
    assert "…" in plain
    assert "x" * 300 in said("ps")
    assert "\x1b" not in said("ps", str(number))
    cancel_all()
