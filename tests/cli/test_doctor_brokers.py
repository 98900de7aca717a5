"""`grn doctor` where a broker runs: one that is well, one that stands still, one elsewhere."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.test_doctor import findings

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]


@pytest.fixture
def broker_pid() -> Iterator[int]:
    address = find_address(find_places(os.environ))
    assert address is not None
    yield address.pid
    os.kill(address.pid, signal.SIGCONT)


def test_a_broker_that_answers_is_well(broker_pid: int) -> None:
    found = findings()["broker"]

    assert found["level"] == "ok"
    assert f"pid {broker_pid} answers" in found["text"]
    assert "2 devices" in found["text"]


def test_a_broker_that_stands_still_is_a_problem(broker_pid: int) -> None:
    os.kill(broker_pid, signal.SIGSTOP)

    found = findings()["broker"]

    assert found["level"] == "problem"
    assert f"pid {broker_pid} has not answered" in found["text"]


def test_brokers_of_other_directories_are_named(broker_pid: int, tmp_path: Path) -> None:
    found = findings(XDG_RUNTIME_DIR=str(tmp_path))["other brokers"]

    assert found["level"] == "warning"
    assert "other broker" in found["text"]
    # Five are named at most, and other tests may run brokers meanwhile.
    assert f"pid {broker_pid} of " in found["text"] or found["text"].count("pid") == 5
