"""The checker itself: each of the six things that must never happen is found."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.schema import MIGRATIONS
from tests.faults.ledger import Checker, Ledger, Verdict

JOB = "a" * 32
SUBMITTED = {
    "event": "submitted",
    "job": JOB,
    "detached": True,
    "retries": 0,
    "outcome": "succeeded",
    "value": 4,
}
ACCEPTED = {"event": "accepted", "job": JOB}
TOLD = {"event": "told", "job": JOB, "outcome": "succeeded", "value": 4}
GOOD = (SUBMITTED, ACCEPTED, TOLD)
RAN = ("start", "finish")


def judge(
    directory: Path,
    events: Collection[dict[str, Any]] = GOOD,
    lines: Collection[str] = RAN,
    *,
    rows: int = 1,
    live: str = "",
    outcome: str = "succeeded",
    stayed: bool = True,
    also: Collection[str] = (),
    mark: tuple[str, str] | None = None,
) -> Verdict:
    """The verdict on a run of one job, of which all went well unless something is said."""
    (directory / "history").write_text("".join(json.dumps(one) + "\n" for one in events))
    (directory / "ledger").write_text("".join(f"{line} {JOB} 1 7\n" for line in lines))
    with closing(sqlite3.connect(directory / "state.db")) as database:
        for statement in (one for version in MIGRATIONS for one in version):
            database.execute(statement)
        for number in range(1, rows + 1):
            database.execute(
                "INSERT INTO jobs VALUES (?, ?, '', 0, 0, 0, 0, '', 0, 0, '', '', 0)",
                (number, JOB),
            )
        if live:
            database.execute(f"INSERT INTO lives VALUES (1, 1, '{live}', '', 0)")
        if outcome:
            database.execute(
                f"INSERT INTO outcomes VALUES (1, 1, '{outcome}', 0, 0, 0, 0, 0, '', 0, 0)"
            )
        database.commit()
    checker = Checker(
        Ledger(directory / "ledger"),
        [(directory / "history", stayed)],
        directory / "state.db",
        mark,
    )
    return checker.verdict(also)


def test_a_good_run_is_clean(tmp_path: Path) -> None:
    assert judge(tmp_path) == Verdict()


def test_an_accepted_job_without_a_record_is_lost(tmp_path: Path) -> None:
    verdict = judge(tmp_path, (SUBMITTED, ACCEPTED), (), rows=0, outcome="", stayed=False)

    assert (verdict.lost, len(verdict.findings)) == (1, 1)


def test_a_job_that_is_live_and_has_ended_has_two_outcomes(tmp_path: Path) -> None:
    assert judge(tmp_path, live="queued").duplicate == 1


def test_one_id_with_two_records_is_two_jobs(tmp_path: Path) -> None:
    assert judge(tmp_path, rows=2).duplicate == 1


@pytest.mark.parametrize(("retries", "double"), [(0, 1), (1, 0)])
def test_a_second_start_needs_a_retry(tmp_path: Path, retries: int, double: int) -> None:
    submitted = {**SUBMITTED, "retries": retries}

    verdict = judge(tmp_path, (submitted, ACCEPTED, TOLD), ("start", *RAN))

    assert verdict.double_start == double


@pytest.mark.parametrize(
    ("events", "lines", "outcome"),
    [
        pytest.param((SUBMITTED, ACCEPTED, {**TOLD, "value": 5}), RAN, "succeeded", id="value"),
        pytest.param(GOOD, ("start",), "succeeded", id="not finished"),
        pytest.param(GOOD, RAN, "failed", id="kept otherwise"),
        pytest.param(({**SUBMITTED, "outcome": "failed"}, ACCEPTED, TOLD), RAN, "succeeded"),
        pytest.param((SUBMITTED, {"event": "refused", "job": JOB}), RAN, "", id="refused"),
    ],
)
def test_what_contradicts_itself_is_unexpected(
    tmp_path: Path,
    events: Collection[dict[str, Any]],
    lines: Collection[str],
    outcome: str,
) -> None:
    assert judge(tmp_path, events, lines, outcome=outcome).unexpected >= 1


def test_a_lost_job_is_expected_only_where_a_fault_may_lose_it(tmp_path: Path) -> None:
    events = (SUBMITTED, ACCEPTED, {**TOLD, "outcome": "lost", "value": None})

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    assert judge(tmp_path / "one", events, ("start",), outcome="lost").unexpected == 1
    assert judge(tmp_path / "two", events, ("start",), outcome="lost", also={"lost"}).clean


def test_a_job_that_does_not_end_is_stuck(tmp_path: Path) -> None:
    verdict = judge(tmp_path, (SUBMITTED, ACCEPTED), ("start",), live="assigned", outcome="")

    assert (verdict.stuck, len(verdict.findings)) == (1, 1)


@pytest.mark.parametrize(("stayed", "stuck"), [(True, 1), (False, 0)])
def test_a_client_that_stays_must_be_told(tmp_path: Path, stayed: bool, stuck: int) -> None:
    assert judge(tmp_path, (SUBMITTED, ACCEPTED), stayed=stayed).stuck == stuck


@pytest.mark.e2e
@pytest.mark.parametrize("job_id", [JOB, ""], ids=["of an ended job", "below nobody"])
def test_a_process_that_outlives_its_job_is_an_orphan(tmp_path: Path, job_id: str) -> None:
    mark = ("GRN_FAULT_RUN", tmp_path.name)
    environment = {**os.environ, mark[0]: mark[1], "GRN_JOB_ID": job_id}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        try:
            verdict = judge(tmp_path, mark=mark)
        finally:
            process.kill()

    assert (verdict.orphan, len(verdict.findings)) == (1, 1)
