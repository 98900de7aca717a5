"""`grn logs`: what a job printed, during and after its run, both streams apart."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import Running, script
from tests.cli.terminals import on_a_terminal
from tests.cli.verbs import cancel_all, submit, until_ended, until_state
from tests.cli.verbs import grn as call
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

SMALL = ("--memory", "10M", "--type", "small")


@pytest.fixture(scope="module", autouse=True)
def broker(small_server: grn.Server) -> Iterator[grn.Server]:
    yield small_server
    cancel_all()


def test_g30_both_streams_can_be_read_after_the_run_together_and_apart() -> None:
    number = submit(*SMALL, "--", "sh", "-c", "echo one; echo two >&2; echo three")
    until_ended(number)

    both, out, err = (
        call("logs", str(number), *one) for one in ((), ("--stdout",), ("--stderr",))
    )

    assert (both.stdout, both.stderr) == ("one\nthree\n", "two\n")
    assert (out.stdout, out.stderr) == ("one\nthree\n", "")
    assert (err.stdout, err.stderr) == ("", "two\n")
    assert call("logs", str(number), "--stdout", "--stderr").stderr == "two\n"


def test_the_last_lines_are_enough_for_some() -> None:
    number = submit(*SMALL, "--", "sh", "-c", "echo a; echo b; echo c; printf d")
    until_ended(number)

    last = call("logs", "-n", "2", "@")

    assert (last.stdout, last.stderr) == ("c\nd", "")
    assert call("logs", "-n", "0", "@").output == ""
    assert call("logs", "--lines", "1", "--stdout", "@").stdout == "d"


def test_g30_output_can_be_followed_until_the_job_ends(home: Path) -> None:
    gate = home / "gate"
    body = f"echo early; until test -e {gate}; do sleep 0.05; done; echo late; exit 3"
    number = submit(*SMALL, "--", "sh", "-c", body)

    with Running("grn", "logs", "-f", str(number)) as following:
        following.until_out("early")
        assert call("logs", str(number)).stdout == "early\n"
        gate.touch()
        status = following.ended()

        assert (status, following.out, following.err) == (0, "early\nlate\n", "")


def test_a_job_that_has_not_started_can_be_followed() -> None:
    number = submit(*SMALL, "--hold", "--", "echo", "at last")

    with Running("grn", "logs", "--follow", str(number)) as following:
        until(lambda: call("release", str(number)).exit_code == 0, 5)

        assert (following.ended(), following.out) == (0, "at last\n")


def test_who_follows_on_a_terminal_is_told_what_the_job_waits_for() -> None:
    number = submit(*SMALL, "--begin", "+1s", "--", "echo", "at last")

    seen = on_a_terminal("grn", "logs", "-f", str(number)).decode()

    first, last = seen.splitlines()
    assert first.startswith(
        f"grn: job {number} has not started yet: waiting for its begin time"
    )
    assert last == "at last"


def test_ctrl_c_leaves_and_the_job_goes_on() -> None:
    number = submit(*SMALL, "--", "sh", "-c", "echo here; exec sleep 60")

    with Running("grn", "logs", "-f", str(number)) as following:
        following.until_out("here")
        following.process.send_signal(signal.SIGINT)

        assert (following.ended(), following.err) == (130, "")
    until_state(number, "running")
    cancel_all()


def test_a_job_that_printed_nothing_says_so() -> None:
    over = submit(*SMALL, "--", "sh", "-c", "echo out")
    waits = submit(*SMALL, "--hold", "--", "true")
    until_ended(over)

    quiet, later = call("logs", str(over), "--stderr"), call("logs", str(waits))

    assert (quiet.exit_code, later.exit_code) == (0, 0)
    assert quiet.stderr == f"grn: job {over} printed nothing to stderr\n"
    assert later.stderr == f"grn: job {waits} has printed nothing yet: it is queued\n"
    cancel_all()


def test_a_second_attempt_is_announced() -> None:
    number = submit(*SMALL, "--retries", "1", "--", "sh", "-c", "echo try; exit 1")
    until_ended(number)

    log = call("logs", str(number))

    assert log.stdout == "try\ntry\n"
    assert "attempt 2" in log.stderr


def test_following_ends_with_its_reader() -> None:
    number = submit(*SMALL, "--", "sh", "-c", "while :; do echo more; sleep 0.05; done")
    line = f"{script('grn')[0]} logs -f {number} | head -2; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, timeout=20 * PATIENCE, cwd="/"
    )

    assert done.stdout.split() == [b"more", b"more", b"0"]
    assert done.stderr == b""
    cancel_all()
