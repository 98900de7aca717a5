"""Failpoints: they cost nothing, fire once, and only on order."""

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import failpoints
from grn_zmq.failpoints import failpoint
from tests.waiting import until

ROOT = Path(__file__).parent.parent
CALL = re.compile(r"\bfailpoint\(\s*(f?[\"'][^\"']*[\"']|[^)]*)")
NAME = re.compile(r"\"(?:broker|journal|worker|client|supervisor)(?:\.[a-z]+(?:-[a-z]+)*)+\"")

PASSING = """
import sys
from grn_zmq.failpoints import arm, failpoint
arm(sys.argv[1])
for number in range(int(sys.argv[2])):
    failpoint("worker.fed")
    print(number, flush=True)
"""


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Path]:
    failpoints.arm(tmp_path)
    yield tmp_path
    failpoints.arm(None)


def passing(orders: Path, times: int = 5) -> "subprocess.Popen[bytes]":
    """A process that comes by five times and says so."""
    return subprocess.Popen(
        [sys.executable, "-c", PASSING, str(orders), str(times)], stdout=subprocess.PIPE
    )


def the_calls() -> list[str]:
    """What stands in the brackets of every call in the product."""
    found = []
    for folder in ("grn_zmq", "broker", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "failpoints.py":
                found += CALL.findall(path.read_text())
    return found


def test_nothing_happens_where_nothing_was_armed(tmp_path: Path) -> None:
    (tmp_path / "worker.fed").write_text("errno EIO")

    failpoint("worker.fed")

    assert (tmp_path / "worker.fed").exists()


def test_nothing_happens_without_an_order(orders: Path) -> None:
    failpoint("worker.fed")


def test_an_error_is_raised_once_and_its_order_is_gone(orders: Path) -> None:
    (orders / "worker.fed").write_text("errno ENOSPC\n")

    with pytest.raises(OSError) as caught:
        failpoint("worker.fed")
    failpoint("worker.fed")

    assert caught.value.errno == errno.ENOSPC
    assert list(orders.iterdir()) == []


def test_an_order_for_one_place_leaves_the_others_alone(orders: Path) -> None:
    (orders / "worker.fed").write_text("errno EIO")

    failpoint("worker.greet")

    assert (orders / "worker.fed").exists()


def test_the_third_time_counts_from_the_order_on(orders: Path) -> None:
    failpoint("worker.fed")
    (orders / "worker.fed").write_text("errno EIO @3")

    failpoint("worker.fed")
    failpoint("worker.fed")
    with pytest.raises(OSError, match="error"):
        failpoint("worker.fed")


def test_an_order_that_makes_no_sense_is_no_silent_pass(orders: Path) -> None:
    (orders / "worker.fed").write_text("explode")

    with pytest.raises(ValueError, match="explode"):
        failpoint("worker.fed")


def test_sleep_goes_on_afterwards(orders: Path) -> None:
    (orders / "worker.fed").write_text("sleep 0.01")

    failpoint("worker.fed")

    assert not (orders / "worker.fed").exists()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("order", "status"), [("kill", -signal.SIGKILL), ("exit", failpoints.EXIT_STATUS)]
)
def test_kill_and_exit_end_the_process_at_that_place(
    tmp_path: Path, order: str, status: int
) -> None:
    (tmp_path / "worker.fed").write_text(f"{order}@2")

    with passing(tmp_path) as first:
        said, _ = first.communicate()
    with passing(tmp_path) as second:
        second.communicate()

    assert first.returncode == status
    assert said == b"0\n"
    assert second.returncode == 0  # an order is for one process, once


@pytest.mark.e2e
def test_stop_holds_the_process_until_it_is_continued(tmp_path: Path) -> None:
    (tmp_path / "worker.fed").write_text("stop")

    with passing(tmp_path) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", 10)
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate()

    assert said.split() == [b"0", b"1", b"2", b"3", b"4"]


def test_every_failpoint_has_a_literal_name_that_says_whose_it_is() -> None:
    calls = the_calls()

    assert [call for call in calls if not NAME.fullmatch(call)] == []


def test_no_packaged_configuration_arms_failpoints() -> None:
    for path in ("Procfile", "pyproject.toml", "README.md"):
        assert "failpoints" not in (ROOT / path).read_text()
