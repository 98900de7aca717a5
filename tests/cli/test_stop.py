"""`grn stop`: what it ends, what it waits for, and what it leaves for the next start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.scripts import TRACEBACK, Running, any_alive, descendants, run, started
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

HOST = ("--devices", "host:1x500MiB", "--max-jobs", "1")

SPAWNER = """
import sys, time
from pathlib import Path
import grn_zmq as grn

@grn.job()
def hold(mark, gate):
    Path(mark).touch()
    while not Path(gate).exists():
        time.sleep(0.05)

for mark in sys.argv[2:]:
    hold.spawn(mark, sys.argv[1])
"""


def spawn(gate: Path, *marks: Path) -> None:
    """Hand over a job for each mark, that touches it and ends when the gate is there."""
    program = gate.with_suffix(".py")
    program.write_text(SPAWNER)
    words = [sys.executable, str(program), str(gate), *map(str, marks)]
    subprocess.run(words, check=True, timeout=40)


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
        assert workers.ended() == 3  # they were told to leave
        assert TRACEBACK not in workers.err


def test_stop_without_a_broker_says_so() -> None:
    stopped = run("grn", "stop")

    assert stopped.returncode == 3
    assert b"no broker is running" in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1


def test_stop_ends_running_jobs_and_keeps_queued_ones_for_the_next_start(
    tmp_path: Path,
) -> None:
    gate, marks = tmp_path / "gate", [tmp_path / "1", tmp_path / "2", tmp_path / "3"]
    with started(*HOST) as server:
        spawn(gate, *marks)
        until(lambda: marks[0].exists(), 20, server.said)

        stopped = run("grn", "stop")

        assert stopped.returncode == 0, stopped.stderr
        assert b"Kept for the next start: 2 queued jobs" in stopped.stdout
        assert b"Ended: 1 running job;" in stopped.stdout
        assert stopped.stderr == b"Ending 1 running job (--drain would wait for it)\n"
        assert server.ended() == 0, server.said()
        assert "Cleaned up" in server.out
    assert not marks[1].exists()
    gate.touch()
    with started(*HOST) as server:
        assert "2 jobs kept from before" in server.out
        until(lambda: all(mark.exists() for mark in marks), 20, server.said)
        assert run("grn", "stop", "--drain").returncode == 0


def test_drain_lets_running_jobs_end_and_starts_no_others(tmp_path: Path) -> None:
    gate, marks = tmp_path / "gate", [tmp_path / "1", tmp_path / "2"]
    with started(*HOST) as server:
        spawn(gate, *marks)
        until(lambda: marks[0].exists(), 20, server.said)
        with Running("grn", "stop", "--drain") as stop:
            until(lambda: "stopping" in server.err, 10, server.said)
            refused = run("grn-run", "true")
            assert stop.process.poll() is None

            gate.touch()

            assert stop.ended() == 0, stop.said()
            assert "Kept for the next start: 1 queued job\n" in stop.out
        assert server.ended() == 0
        assert refused.returncode != 0
        assert b"stop" in refused.stderr
    assert not marks[1].exists()
    with started(*HOST) as server:
        until(marks[1].exists, 20, server.said)
        assert run("grn", "stop", "--drain").returncode == 0


def test_a_stop_without_drain_overtakes_one_with_it(tmp_path: Path) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "1"
    with started(*HOST) as server:
        spawn(gate, mark)
        until(mark.exists, 20, server.said)
        with Running("grn", "stop", "--drain") as patient:
            until(lambda: "stopping" in server.err, 10, server.said)

            hasty = run("grn", "stop")

            assert hasty.returncode == 0, hasty.stderr
            assert patient.ended() == 0
        assert server.ended() == 0


def test_a_broker_that_does_not_answer_is_ended_by_its_supervisor() -> None:
    with started(*HOST) as server:
        address = find_address(find_places(os.environ))
        assert address is not None
        os.kill(address.pid, signal.SIGSTOP)

        stopped = run("grn", "stop", timeout_s=90)

        assert stopped.returncode == 0, stopped.stderr
        assert server.ended() == 0, server.said()
        assert not any_alive([address.pid])


def test_a_broker_that_dies_while_it_drains_is_told_again(tmp_path: Path) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "1"
    with started(*HOST) as server:
        spawn(gate, mark)
        until(mark.exists, 20, server.said)
        with Running("grn", "stop", "--drain") as stop:
            until(lambda: "stopping" in server.err, 10, server.said)
            address = find_address(find_places(os.environ))
            assert address is not None
            os.kill(address.pid, signal.SIGKILL)
            until(lambda: server.err.count(" stopping ") >= 2, 10, server.said)

            gate.touch()

            assert stop.ended() == 0, stop.said()
        assert server.ended() == 0, server.said()
