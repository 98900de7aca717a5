"""Broker and workers from Python: started and stopped by a function call."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.discovery import find_address, is_locked, lock_holder
from grn_zmq.paths import find_places
from tests.cli.scripts import any_alive, descendants
from tests.conftest import forget_client
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

HOST = "host:2x500MiB"


@grn.job()
def add(a: int, b: int) -> int:
    return a + b


@contextlib.contextmanager
def a_server(devices: str | None = HOST, *, debug: bool = False) -> Iterator[grn.Server]:
    """A server that this process has left before it stops."""
    with grn.start(devices, debug=debug) as server:
        try:
            yield server
        finally:
            forget_client()


def test_r101_a_broker_is_started_used_and_stopped_by_function_calls() -> None:
    server = grn.start(HOST)
    below = descendants(server.pid)
    total = add(1, 2)
    forget_client()

    server.stop()
    server.stop()

    assert total == 3
    assert len(below) >= 4
    assert not any_alive([server.pid, *below])
    with pytest.raises(grn.BrokerUnavailable, match="grn start"):
        add(1, 2)


def test_r101_one_after_the_other_finds_the_one_that_lives() -> None:
    for number in range(2):
        with a_server():
            assert add(number, 1) == number + 1


def test_r101_leaving_the_block_by_an_exception_stops_it_too() -> None:
    below: list[int] = []

    def fail_inside() -> None:
        with a_server() as server:
            below.extend(descendants(server.pid))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    assert below
    assert not any_alive(below)


def test_r101_a_second_one_is_refused_and_names_the_first() -> None:
    with a_server():
        address = find_address(find_places(os.environ))
        assert address is not None

        with pytest.raises(grn.BrokerRunning) as caught:
            grn.start(HOST)

        assert caught.value.pid == address.pid
        assert add(1, 1) == 2


def test_r91_a_start_that_fails_raises_with_the_reason(gpus: FakeDriver) -> None:
    gpus.no_driver()
    try:
        with pytest.raises(grn.BrokerUnavailable, match="driver"):
            grn.start("nvml")
    finally:
        gpus.no_driver(False)

    assert lock_holder(find_places(os.environ)) is None


def test_r78_after_a_start_that_failed_the_next_one_succeeds(gpus: FakeDriver) -> None:
    with pytest.raises(grn.BrokerUnavailable, match="potato"):
        grn.start("nvml:potato")

    with a_server("nvml") as server:
        assert len(descendants(server.pid)) >= 4


def test_the_log_is_kept_for_its_starter() -> None:
    with a_server(debug=True) as server:
        add(1, 2)
        until(lambda: "outcome=succeeded" in server.log(), 5, server.log)

        assert "broker ready" in server.log()


def test_a_log_of_the_starter_gets_the_lines(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w+") as log, grn.start(HOST, log=log):
        pass

    assert "broker ready" in (tmp_path / "log").read_text()


def test_it_ends_with_the_process_that_started_it() -> None:
    program = f"import grn_zmq, os; grn_zmq.start({HOST!r}); os.kill(os.getpid(), 9)"

    done = subprocess.run([sys.executable, "-c", program], cwd="/")

    assert done.returncode == -signal.SIGKILL
    places = find_places(os.environ)
    until(lambda: not is_locked(places), 10)


def test_a_killed_broker_is_followed_by_a_fresh_one_of_the_same_server() -> None:
    with a_server() as server:
        assert add(1, 2) == 3
        address = find_address(find_places(os.environ))
        assert address is not None

        os.kill(address.pid, signal.SIGKILL)

        assert add(2, 2) == 4
        assert "it is started again which=broker status=-9" in server.log()
