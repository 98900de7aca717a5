"""What people do to jobs: wait, cancel, retry, hold, release, priority, pause, clean."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import Running
from tests.cli.terminals import on_a_terminal
from tests.cli.verbs import (
    cancel_all,
    facts,
    row_of,
    said,
    submit,
    until_ended,
    until_state,
)
from tests.cli.verbs import grn as call
from tests.waiting import until

pytestmark = pytest.mark.e2e

SMALL = ("--memory", "10M", "--type", "small")


@pytest.fixture(scope="module", autouse=True)
def broker(small_server: grn.Server) -> Iterator[grn.Server]:
    yield small_server
    cancel_all()


@pytest.fixture(autouse=True)
def nothing_waits_or_runs() -> Iterator[None]:
    yield
    said("resume")
    cancel_all()


@pytest.mark.parametrize(
    ("options", "script", "status"),
    [
        ((), "exit 0", 0),
        ((), "exit 7", 7),
        ((), "kill -TERM $$", 143),
        ((), "kill -KILL $$", 137),
        (("--time", "0.3s", "--grace", "1s"), "exec sleep 60", 124),
    ],
)
def test_wait_leaves_with_the_status_of_the_job(
    options: tuple[str, ...], script: str, status: int
) -> None:
    number = submit(*SMALL, *options, "--", "sh", "-c", script)

    done = call("wait", str(number))

    assert done.exit_code == status
    assert done.stderr.count("\n") == (1 if status else 0)
    assert call("wait", str(number)).exit_code == status


def test_wait_for_a_cancelled_job_gives_130_and_the_first_failure_counts() -> None:
    fails = submit(*SMALL, "--", "sh", "-c", "exit 5")
    held = submit(*SMALL, "--hold", "--", "true")
    until_ended(fails)
    said("cancel", str(held))

    assert call("wait", str(held)).exit_code == 130
    assert call("wait", str(held), str(fails)).exit_code == 130
    assert call("wait", str(fails), str(held)).exit_code == 5


def test_wait_is_told_of_the_end_and_does_not_poll(home: Path) -> None:
    gate = home / "open"
    script = f"until test -e {gate}; do sleep 0.02; done; exit 9"
    number = submit(*SMALL, "--", "sh", "-c", script)

    with Running("grn", "wait", str(number)) as waiting:
        until_state(number, "running")
        assert waiting.process.poll() is None
        gate.touch()

        assert waiting.ended() == 9
        assert waiting.err == f"grn: job {number} failed (exit 9)\n"


def test_wait_for_any_and_wait_no_longer_than_that() -> None:
    long = submit(*SMALL, "--", "sleep", "60")
    short = submit(*SMALL, "--", "sh", "-c", "exit 4")

    any_one = call("wait", "--any", str(long), str(short))
    all_of = call("wait", str(long), "--timeout", "0.2s")

    assert any_one.exit_code == 4
    assert all_of.exit_code == 124
    assert all_of.stderr == f"grn: job {long} has not ended within 0.2 s\n"
    assert row_of(long)["state"] in ("assigned", "running")


def test_wait_on_a_terminal_says_that_it_waits_and_for_which_it_did() -> None:
    long = submit(*SMALL, "--", "sleep", "60")
    short = submit(*SMALL, "--begin", "+1s", "--", "true")

    seen = on_a_terminal("grn", "wait", "--any", f"{long}-{short}").decode()

    assert seen.splitlines() == [
        f"grn: waiting for jobs {long}-{short}",
        f"grn: job {short} has succeeded",
    ]


def test_submitting_to_a_paused_queue_says_so_once() -> None:
    said("pause")

    told = call("submit", "--param", "x=1,2", "--", "echo", "{x}")
    quiet = call("submit", "--quiet", "--", "true")

    assert told.stderr == "grn: the queue is paused: `grn resume` lets jobs start\n"
    assert quiet.stderr == ""


def test_a_begin_time_is_confirmed_when_a_job_is_submitted() -> None:
    told = said("submit", "--begin", "2031-11-19T08:00", "--", "true")

    assert told.endswith(": true; begins 2031-11-19 08:00:00\n")


def test_wait_goes_on_with_the_next_broker(home: Path) -> None:
    gate = home / "restarted"
    script = f"until test -e {gate}; do sleep 0.02; done; exit 6"
    number = submit(*SMALL, "--", "sh", "-c", script)
    until_state(number, "running")

    with Running("grn", "wait", str(number)) as waiting:
        before = facts("status")["pid"]
        until(lambda: _listens(waiting.pid), 20)
        os.kill(before, signal.SIGKILL)
        until(lambda: facts("status")["pid"] != before, 20)
        gate.touch()

        assert waiting.ended(40) == 6, waiting.said()


def _listens(pid: int) -> bool:
    """Whether it has both its connections, the one for questions and the one that waits."""
    links = [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]
    return sum(link.startswith("socket:") for link in links) >= 2


def test_ctrl_c_leaves_wait_and_the_job_goes_on() -> None:
    number = submit(*SMALL, "--", "sleep", "60")

    with Running("grn", "wait", str(number)) as waiting:
        until_state(number, "running")
        until(lambda: _listens(waiting.pid), 20)
        waiting.interrupt()

        assert (waiting.ended(), waiting.err) == (130, "")
    assert row_of(number)["state"] == "running"


def test_wait_has_the_rows_for_machines() -> None:
    number = submit(*SMALL, "--", "sh", "-c", "exit 2")

    done = call("wait", str(number), "--json")

    assert done.exit_code == 2
    assert '"exit_status": 2' in done.stdout


def test_cancel_tells_what_becomes_of_each() -> None:
    runs = submit(*SMALL, "--", "sleep", "60")
    waits = submit(*SMALL, "--hold", "--", "true")
    over = submit(*SMALL, "--", "true")
    until_state(runs, "running")
    until_ended(over)

    done = call("cancel", f"{runs},{waits},{over}")

    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"Cancelled job {waits}",
        f"Ending job {runs}: TERM, and after the grace KILL",
    ]
    assert done.stderr == f"grn: job {over} has ended already: succeeded\n"
    assert until_state(runs, "cancelled")["signal"] == signal.SIGTERM


def test_cancel_leaves_with_1_if_nothing_was_left_to_cancel() -> None:
    over = submit(*SMALL, "--", "true")
    until_ended(over)

    done = call("cancel", str(over), "--json")

    assert done.exit_code == 1
    assert facts("ps", str(over))[0]["state"] == "succeeded"
    assert '"why": "has ended already: succeeded"' in done.stdout


def test_cancel_all_asks_on_a_terminal() -> None:
    number = submit(*SMALL, "--hold", "--", "true")

    no = on_a_terminal("grn", "cancel", "--all", stdin=b"n\n")
    assert b"End 1 job that wait or run?" in no
    assert row_of(number)["state"] == "queued"
    yes = on_a_terminal("grn", "cancel", "--all", stdin=b"y\n")
    assert f"Cancelled job {number}".encode() in yes
    assert said("cancel", "--all") == "No jobs to cancel\n"


def test_retry_submits_the_same_again(home: Path) -> None:
    count = home / "count"
    number = submit(
        *SMALL,
        "--name",
        "again",
        "--",
        "sh",
        "-c",
        f"echo x >> {count}; exit $(wc -l < {count})",
    )
    until_ended(number)

    done = call("retry", str(number))

    again = facts("ps", "@")[0]
    assert done.stdout == f"Submitted job {again['number']} (again {number})\n"
    assert again["name"] == "again"
    assert call("wait", "@").exit_code == 2
    assert call("wait", str(number)).exit_code == 1


def test_retry_failed_takes_what_follows_along_and_nothing_twice() -> None:
    bad = submit("--type", "bad", "--memory", "10M", "--", "false")
    follows = submit("--after", str(bad), "--type", "bad", "--memory", "10M", "--", "true")
    until_ended(bad, follows)
    assert row_of(follows)["state"] == "cancelled"

    again = json.loads(call("retry", "--failed", "--json").stdout)["submitted"]
    numbers = {one["again"]: one["number"] for one in again}
    until_ended(*numbers.values())

    assert row_of(numbers[follows])["state"] == "cancelled"  # it was to run after it, again
    third = json.loads(call("retry", "--failed", "--json").stdout)["submitted"]
    assert {one["again"] for one in third} == set(numbers.values())
    until_ended(*(one["number"] for one in third))
    call("clean", "--failed")
    said("clean", *(str(one) for one in (follows, numbers[follows])))


def test_retry_failed_takes_all_that_failed_and_a_call_cannot_be_retried() -> None:
    said("clean", "--all")
    fails = [submit(*SMALL, "--", "sh", "-c", "exit 3") for _ in "ab"]
    fine = submit(*SMALL, "--", "true")
    until_ended(*fails, fine)
    assert grn.job(type="call")(lambda: 1)() == 1
    called = facts("ps", "@")[0]["number"]

    done = call("retry", "--failed")
    refused = call("retry", str(called))

    assert [line.split("again ")[1] for line in done.stdout.splitlines()] == [
        f"{number})" for number in fails
    ]
    machine = json.loads(call("retry", f"{fine},{called}", "--json").stdout)
    assert [one["again"] for one in machine["submitted"]] == [fine]
    assert [one["number"] for one in machine["undone"]] == [called]
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"grn: job {called} cannot be run again: ")
    assert refused.stderr.count("\n") == 1


def test_hold_and_release_and_what_cannot_be_held() -> None:
    runs = submit(*SMALL, "--", "sleep", "60")
    until_state(runs, "running")
    said("pause")
    waits = [submit(*SMALL, "--", "true") for _ in "abc"]

    held = call("hold", f"{waits[0]}-{waits[2]}", str(runs))
    assert held.exit_code == 0
    assert held.stdout == f"Held jobs {waits[0]}-{waits[2]}\n"
    assert held.stderr.startswith(f"grn: job {runs} is running: only jobs that wait")
    said("resume")
    assert [row_of(number)["code"] for number in waits] == ["H"] * 3
    assert call("hold", str(runs)).exit_code == 1
    assert said("release", *map(str, waits[1:])) == f"Released jobs {waits[1]}-{waits[2]}\n"
    until_ended(*waits[1:])
    assert facts("release", str(waits[0])) == {
        "done": [{"number": waits[0], "job_id": row_of(waits[0])["job_id"]}],
        "undone": [],
    }
    until_ended(waits[0])


def test_priority_changes_who_goes_first(home: Path) -> None:
    file = home / "order"
    said("pause")
    numbers = [
        submit(*SMALL, "--exclusive", "--", "sh", "-c", f"echo {name} >> {file}")
        for name in "abcd"
    ]

    first, last = numbers[2], numbers[0]
    assert said("priority", "10", str(first)) == f"Priority 10 for job {first}\n"
    assert said("priority", "-5", str(last)) == f"Priority -5 for job {last}\n"
    assert [row_of(one)["priority"] for one in numbers] == [-5, 0, 10, 0]
    said("resume")
    until_ended(*numbers)

    order = file.read_text().split()
    assert order.index("c") < 2
    assert order.index("a") > 1


def test_pause_starts_nothing_and_resume_goes_on() -> None:
    assert said("pause").startswith("Paused: no more jobs are started")
    number = submit(*SMALL, "--", "true")

    assert row_of(number)["waits_for"] == "paused"
    assert "paused: `grn resume`" in said("status")
    assert facts("resume") == {"paused": False}
    until_ended(number)


def test_clean_forgets_what_it_is_told_to() -> None:
    said("clean", "--all")
    fails = [submit(*SMALL, "--", "sh", "-c", "echo x; exit 3") for _ in "ab"]
    fine = submit(*SMALL, "--", "true")
    runs = submit(*SMALL, "--", "sleep", "60")
    until_ended(*fails, fine)
    until_state(runs, "running")
    log = Path(facts("show", str(fails[0]))[0]["log"])
    assert log.exists()

    assert said("clean", "--succeeded", "--older-than", "1h") == "Nothing to forget\n"
    assert said("clean", str(fails[0])) == f"Forgot job {fails[0]}\n"
    until(lambda: not log.exists(), 10)
    assert call("show", str(fails[0])).exit_code == 1
    assert said("clean", "--failed") == f"Forgot job {fails[1]}\n"
    refused = call("clean", str(runs))
    assert refused.exit_code == 1
    assert "is running: only ended jobs can be cleaned" in refused.stderr
    assert facts("clean", "--all")["done"][0]["number"] == fine
    assert [row["number"] for row in facts("ps", "--all")] == [runs]


def test_many_jobs_are_acted_on_in_few_messages() -> None:
    said("pause")
    said("submit", "--quiet", "--array", "1-120", *SMALL, "--", "true")
    newest = facts("ps", "@")[0]["number"]
    span = f"{newest - 119}-{newest}"

    assert said("hold", span) == f"Held jobs {span}\n"
    assert said("release", span) == f"Released jobs {span}\n"
    assert said("cancel", span) == f"Cancelled jobs {span}\n"
    assert call("wait", span).stderr == f"grn: jobs {span}: each was cancelled\n"
    assert said("clean", span) == f"Forgot jobs {span}\n"
