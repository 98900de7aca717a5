"""`grn stop` for a broker and workers that nobody supervises."""

import os
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.scripts import TRACEBACK, Running, any_alive, descendants, run
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]


def test_stop_returns_only_when_the_workers_of_a_broker_started_by_hand_are_gone(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "pid"
    deaf = f"""sh -c 'trap "" TERM INT; echo $$ > {mark}; while :; do sleep 0.1; done'"""
    with (
        Running("grn-broker") as broker,
        Running("grn-workers", "--devices", "host:2x500MiB") as workers,
    ):
        until(lambda: find_address(find_places(os.environ)), 20, broker.said)
        with Running("grn-run", deaf) as client:
            until(lambda: mark.exists() and mark.read_text().strip(), 20, client.said)
            below = descendants(workers.pid)

            stopped = run("grn", "stop")

            assert not any_alive([*below, int(mark.read_text())])
            assert stopped.returncode == 0, stopped.stderr
            assert b"Stopped the broker" in stopped.stdout
            assert client.ended() not in (0, None)
        assert broker.ended() == 0, broker.said()
        workers.ended()
        assert TRACEBACK not in workers.err


def test_stop_without_a_broker_says_so() -> None:
    stopped = run("grn", "stop")

    assert stopped.returncode == 3
    assert b"no broker is running" in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
