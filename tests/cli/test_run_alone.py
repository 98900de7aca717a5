"""`grn run` without a broker: it starts one, uses it, and leaves nothing."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address, lock_holder
from grn_zmq.paths import find_places
from tests.cli.scripts import TRACEBACK, Running, any_alive, descendants, run, started
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home", "nothing_stays")]

HOST = ("--devices", "host:2x500MiB")
ONE = ("--devices", "host:1x1GiB")


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    """After each of these tests no broker is left, and no file of one."""
    yield
    places = find_places(os.environ)
    until(lambda: lock_holder(places) is None, 10)
    left = [path for path in places.directory.rglob("*") if not path.is_dir()]
    kept = {places.lock, places.supervisor_lock, places.directory / "broker.namespace"}
    assert {path for path in left if path.parent.name != "devices"} <= kept


def pids_of(*marks: Path) -> list[int]:
    return [int(mark.read_text()) for mark in marks]


def are_there(*marks: Path) -> bool:
    return all(mark.exists() and mark.read_text().strip() for mark in marks)


def sleeper(mark: Path, trap: str = "") -> str:
    """A command that writes its pid and sleeps, deaf to the signals it traps."""
    code = f"{trap} echo $$ > {mark}; while :; do sleep 0.2; done"
    return f"sh -c '{code}'"


def broker_pid() -> int:
    address = find_address(find_places(os.environ))
    assert address is not None
    return address.pid


def test_r81_a_broker_is_started_used_and_stopped(gpus: FakeDriver) -> None:
    with Running("grn-run", "sh -c 'echo $CUDA_VISIBLE_DEVICES; sleep 0.3'") as running:
        running.until_out("\n")
        below = descendants(running.pid)

        assert running.ended() == 0
        assert running.out.strip() in (gpus.uuid(0), gpus.uuid(1))
        assert len(below) >= 5
        assert not any_alive(below)


def test_r82_new_types_run_one_each_first_and_the_rest_after_the_measuring(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    a, b = (
        f"sh -c 'echo begin {name} >> {log}; sleep 1; echo end {name} >> {log}'"
        for name in "AB"
    )

    done = run("grn-run", *HOST, a, a, a, b)

    said = log.read_text().splitlines()
    assert done.returncode == 0, done.stderr
    assert sorted(said[:2]) == ["begin A", "begin B"]
    assert "end A" in said[2 : said.index("begin A", said.index("begin A") + 1)]
    assert sorted(said) == sorted(["begin A", "end A"] * 3 + ["begin B", "end B"])


def test_two_at_once_without_a_broker_share_the_one_that_comes_up_first(
    tmp_path: Path,
) -> None:
    marks = [tmp_path / "one", tmp_path / "two"]
    with (
        Running("grn-run", *HOST, sleeper(marks[0])) as one,
        Running("grn-run", *HOST, sleeper(marks[1])) as two,
    ):
        until(lambda: are_there(*marks), 20, lambda: one.said() + two.said())
        everybody = [*descendants(one.pid), *descendants(two.pid), *pids_of(*marks)]

        one.interrupt()
        two.interrupt()

        assert {one.ended(), two.ended()} <= {130, 1}  # 1: its broker ended first
        assert TRACEBACK not in one.err + two.err
        until(lambda: not any_alive(everybody), 10, lambda: f"{any_alive(everybody)}")


def test_r87_with_debug_the_broker_it_starts_logs_on_stderr() -> None:
    done = run("grn-run", *ONE, "-d", "echo out")

    assert done.returncode == 0
    assert done.stdout == b"out\n"
    assert b" DEBUG " in done.stderr
    assert b"type=echo out" in done.stderr


def test_r90_a_command_that_uses_no_gpu_gets_a_warning_and_status_0(gpus: FakeDriver) -> None:
    done = run("grn-run", "true")

    assert done.returncode == 0
    assert b"never seen to use its GPU" in done.stderr


def test_r91_a_start_that_fails_is_told_in_the_words_of_who_failed(gpus: FakeDriver) -> None:
    begun = time.monotonic()

    done = run("grn-run", "true", environment={"CUDA_VISIBLE_DEVICES": "9"})

    assert time.monotonic() - begun < 10 * PATIENCE
    assert done.returncode != 0
    assert b"CUDA_VISIBLE_DEVICES" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_r92_a_decorated_script_runs_to_its_end_on_one_device(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import grn_zmq as grn\n"
        "@grn.job()\n"
        "def double(x):\n"
        "    return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    print(double(20) + sum(double.map([0, 1])))\n"
    )

    done = run("grn-run", *ONE, f"{sys.executable} {program}")

    assert (done.returncode, done.stdout) == (0, b"42\n"), done.stderr


def test_r93_ctrl_c_ends_commands_broker_and_workers(tmp_path: Path) -> None:
    marks = [tmp_path / "one", tmp_path / "two"]
    commands = [sleeper(mark) for mark in marks]
    with Running("grn-run", *HOST, *commands) as running:
        until(lambda: are_there(*marks), 20, running.said)
        everybody = [*descendants(running.pid), *pids_of(*marks)]

        running.interrupt()

        assert running.ended() == 130, running.said()
        assert running.err == ""
        assert not any_alive(everybody)


def test_r93_ctrl_c_twice_does_not_wait_for_a_deaf_command(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with Running("grn-run", *ONE, "-d", sleeper(mark, 'trap "" INT TERM;')) as running:
        until(lambda: are_there(mark), 20, running.said)
        everybody = [*descendants(running.pid), *pids_of(mark)]
        running.interrupt()
        running.until_err(" cancelling ")  # the broker has been asked: now it waits

        running.interrupt()

        assert running.ended(12) == 130, running.said()
        assert TRACEBACK not in running.err
        until(lambda: not any_alive(everybody), 10, lambda: f"{any_alive(everybody)}")


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_r93_a_signal_while_the_broker_starts_leaves_nothing(
    gpus: FakeDriver, signum: int, status: int
) -> None:
    gpus.init_delay(30)
    try:
        with Running("grn-run", "true") as running:
            until(lambda: len(descendants(running.pid)) >= 2, 20, running.said)
            everybody = descendants(running.pid)

            running.process.send_signal(signum)

            assert running.ended(10) == status, running.said()
            assert TRACEBACK not in running.err
            assert not any_alive(everybody)
    finally:
        gpus.init_delay(0)


def test_r94_only_the_gpus_that_are_visible_are_used(home: Path) -> None:
    driver = FakeDriver(home / "three", [1000, 1000, 1000])
    environment = {**driver.environment(), "CUDA_VISIBLE_DEVICES": "0,1"}
    # Each of another type, so that each is measured alone on a device.
    commands = [f"sh -c 'echo $CUDA_VISIBLE_DEVICES {name}; sleep 0.2'" for name in "abcd"]

    done = run("grn-run", *commands, environment=environment)

    used = {line.split()[0] for line in done.stdout.decode().splitlines()}
    assert done.returncode == 0
    assert used == {driver.uuid(0), driver.uuid(1)}


def test_promise_6_its_command_outlives_its_broker(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    with Running("grn-run", *ONE, held(begun, gate)) as running:
        until(lambda: are_there(begun), 20, running.said)
        before = broker_pid()

        os.kill(before, signal.SIGKILL)
        until(lambda: find_address(find_places(os.environ)), 10, running.said)
        gate.touch()

        assert running.ended() == 0, running.said()
        assert running.out == "done\n"
        assert TRACEBACK not in running.err


def test_its_own_death_is_the_end_of_all_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with Running("grn-run", *ONE, sleeper(mark)) as running:
        until(lambda: are_there(mark), 20, running.said)
        everybody = [*descendants(running.pid), *pids_of(mark)]

        running.process.kill()
        running.ended()

        until(lambda: not any_alive(everybody), 10, lambda: f"{any_alive(everybody)}")


SPAWNER = """
import sys, time
from pathlib import Path
import grn_zmq as grn

@grn.job()
def late(path):
    time.sleep(1)
    Path(path).write_text("done")

late.spawn(sys.argv[1])
"""


def test_a_job_that_its_command_spawned_ends_before_the_broker_is_stopped(
    tmp_path: Path,
) -> None:
    (tmp_path / "spawner.py").write_text(SPAWNER)
    mark = tmp_path / "mark"

    done = run("grn-run", *HOST, f"{sys.executable} {tmp_path}/spawner.py {mark}")

    assert done.returncode == 0, done.stderr
    assert mark.read_text() == "done"
    assert b"waiting for 1 more job" in done.stderr


def held(begun: Path, gate: Path) -> str:
    """A command that says that it has begun, and ends when the gate is there."""
    return f"sh -c 'echo $$ > {begun}; while [ ! -e {gate} ]; do sleep 0.05; done; echo done'"


def test_the_jobs_of_another_run_that_joined_end_before_the_broker_is_stopped(
    tmp_path: Path,
) -> None:
    begun, gates = (
        [tmp_path / "begun-1", tmp_path / "begun-2"],
        [tmp_path / "1", tmp_path / "2"],
    )
    with Running("grn-run", *HOST, held(begun[0], gates[0])) as first:
        until(lambda: are_there(begun[0]), 20, first.said)
        with Running("grn-run", held(begun[1], gates[1])) as second:
            until(lambda: are_there(begun[1]), 20, second.said)

            gates[0].touch()
            first.until_err("waiting for 1 more job")
            assert second.process.poll() is None
            gates[1].touch()

            assert second.ended() == 0, second.said()
            assert second.out == "done\n"
        assert first.ended() == 0, first.said()
        assert first.out == "done\n"


def queue_for_later(*words: str) -> None:
    """Leave jobs behind that no broker has started yet."""
    with started(*ONE):
        assert run("grn", "submit", *words, "--", "sleep", "60").returncode == 0
        assert run("grn", "stop").returncode == 0


def forget_all() -> None:
    with started(*ONE):
        run("grn", "cancel", "--all", "--yes")
        assert run("grn", "stop").returncode == 0


def test_jobs_that_were_kept_for_later_are_not_waited_for() -> None:
    queue_for_later("--param", "begin=1,2", "--begin", "+20h", "--name", "{begin}")

    done = run("grn-run", *HOST, "sh -c 'exit 3'")

    assert done.returncode == 3
    assert done.stderr == b"grn: 2 queued jobs stay for the next start: grn start\n"
    forget_all()


def test_ctrl_c_while_others_are_waited_for_leaves_with_the_status_of_the_commands(
    tmp_path: Path,
) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    with Running("grn-run", *HOST, held(begun, gate)) as first:
        until(lambda: are_there(begun), 20, first.said)
        assert run("grn", "submit", "--", "sleep", "60").returncode == 0
        gate.touch()
        first.until_err("waiting for 1 more job here; Ctrl-C ends it")

        first.interrupt()

        assert first.ended() == 0, first.said()
