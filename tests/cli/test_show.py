"""`grn show`: everything about one job, in groups for people and as JSON for machines."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.cli.describing import describe, tried
from grn_zmq.facts import JobDetail, Tried
from grn_zmq.units import MIB
from tests.builders import a_job_row, an_id
from tests.cli.verbs import cancel_all, facts, said, submit, until_ended, until_state

DETAIL = JobDetail(
    by={},
    policy="spread",
    memory_bytes=0,
    exclusive=False,
    parent="",
    timeout_s=None,
    time_limit_s=None,
    grace_s=5.0,
    retries=0,
    retried=0,
    retry_on=(),
    oom_retries=2,
    ooms=0,
    enforce=False,
    version="",
    on_end="",
    variables={},
    held=False,
    after=(),
    begin_in_s=None,
    error_type="",
    error_text="",
    last_lines="",
    fit=0,
    can_retry=False,
    tried=(),
)


def lines(row: object, detail: JobDetail = DETAIL, log: str = "") -> list[str]:
    assert isinstance(row, type(a_job_row()))
    groups = describe(row, detail, log, {an_id(7): 7}, 1000.0)
    return [f"{title}/{name}: {value}" for title, found in groups for name, value in found]


def test_a_running_job_tells_where_it_is_and_what_it_uses() -> None:
    row = a_job_row(12, pid=4711, predicted_bytes=200 * MIB)

    said = lines(row, replace(DETAIL, fit=3, by={"bs": 8}, parent=an_id(7)))

    for line in (
        "Job/number: 12",
        "Job/by: bs=8",
        "Job/part of: job 7",
        "State/state: running (R), measuring",
        "State/process: pid 4711",
        "Memory/predicted: 200.0 MiB",
        "Memory/leased: 1000.0 MiB",
        "Memory/measured: 90.0 MiB",
        "Memory/peak: 100.0 MiB",
        "Memory/fit: 3 of these on host:0",
        "Times/ran: 1.0 s",
    ):
        assert line in said
    assert not any(line.startswith(("State/run again", "Output")) for line in said)


def test_a_waiting_job_tells_what_it_waits_for() -> None:
    row = a_job_row(state="queued", device="", why="held: release it", waits_for="held")
    detail = replace(DETAIL, after=(an_id(7), an_id(8)), begin_in_s=60.0, held=True)

    said = lines(row, detail)

    assert "State/state: held (H)" in "\n".join(said)
    assert "State/reason: held: release it" in said
    assert f"State/after: job 7, job {an_id(8)[:8]}" in said
    assert any(line.startswith("Times/begins: ") for line in said)
    assert not any(
        line.startswith(("Times/started", "Times/ended", "Times/ran")) for line in said
    )


def test_a_failed_job_tells_its_end_its_attempts_and_its_last_lines() -> None:
    row = a_job_row(state="failed", exit_status=3, why="exited with status 3", ended_s=5.0)
    before = Tried(1, "host:1", "out of memory", 100 * MIB, 300 * MIB, 3.0)
    detail = replace(DETAIL, tried=(before,), last_lines="a\nb\n", retries=2, retried=1)

    said = lines(row, detail, "/logs/x.log")

    told = "on host:1: out of memory; predicted 100.0 MiB, peak 300.0 MiB, ran 3.0 s"
    assert tried(before) == told
    assert "State/result: exit 3" in said
    assert "State/run again: no: its inputs are not kept" in said
    assert f"Attempts before/attempt 1: {told}" in said
    assert "Options/retries: 1 of 2 used" in said
    assert "Output/log: /logs/x.log" in said
    assert "Output/last lines: a\nb" in said
    assert not any(line.startswith("State/error") for line in said)


def test_options_that_were_given_are_told() -> None:
    detail = replace(
        DETAIL,
        exclusive=True,
        timeout_s=60.0,
        time_limit_s=3600.0,
        retries=1,
        retry_on=("lost",),
        enforce=True,
        on_end="notify",
        variables={"A": "1"},
        memory_bytes=MIB,
    )

    said = lines(a_job_row(), detail)

    for line in (
        "Options/exclusive: yes",
        "Options/timeout: 1:00 to wait",
        "Options/time limit: 1:00:00",
        "Options/retries: 0 of 1 used, after lost",
        "Options/enforce: yes",
        "Options/on end: notify",
        "Options/variable: A=1",
        "Memory/declared: 1.0 MiB",
    ):
        assert line in said


def test_a_job_that_is_run_again_names_the_one_before_and_no_version() -> None:
    said = lines(a_job_row(again_of=an_id(7)), replace(DETAIL, version="6ae1"))

    assert "Job/again of: job 7" in said
    assert not any("6ae1" in line for line in said)


@pytest.fixture(scope="module")
def broker(small_server: grn.Server) -> Iterator[grn.Server]:
    yield small_server
    cancel_all()


@pytest.mark.e2e
@pytest.mark.usefixtures("broker")
def test_show_tells_all_about_a_job_that_failed_twice() -> None:
    number = submit(
        *("--memory", "20M", "--name", "twice", "--retries", "1", "--time", "1h"),
        *("--env", "COLOUR=green", "--", "sh", "-c", "echo $COLOUR; echo oh >&2; exit 3"),
    )
    until_ended(number)

    text = said("show", "twice")
    (found,) = facts("show", str(number))

    for part in ("exit 3", "attempt 1", "grn retry", "COLOUR=green", "1:00:00", "    oh"):
        assert part in text
    assert (found["number"], found["name"], found["state"]) == (number, "twice", "failed")
    assert found["exit_status"] == 3
    assert len(found["tried"]) == 1
    assert found["retried"] == 1
    assert found["can_retry"] is True
    assert found["time_limit_s"] == 3600.0
    assert found["ended_at"].endswith("Z")
    assert b"oh\n" in Path(found["log"]).read_bytes()


@pytest.mark.e2e
@pytest.mark.usefixtures("broker")
def test_show_of_several_is_one_list_and_names_what_a_job_waits_for() -> None:
    first = submit("--memory", "20M", "--type", "s", "--", "sleep", "60")
    until_state(first, "running")
    second = submit("--type", "s", "--after", str(first), "--begin", "1h", "--", "true")

    found = json.loads(said("show", f"{first},{second}", "--json"))
    text = said("show", str(second))

    assert [one["number"] for one in found] == [first, second]
    assert found[1]["begin_at"] > found[1]["submitted_at"]
    assert found[1]["log"] is None
    assert f"job {first}" in text
    assert "begins" in text
    cancel_all()
