"""R62: what was learned outlives the broker, however it ends, and no state file stops one."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.paths import state_file
from grn_zmq.starting import running_pid
from tests.cli.scripts import TRACEBACK, run
from tests.conftest import forget_client
from tests.e2e import grabbing
from tests.e2e.listed import all_profiles
from tests.e2e.scene import LONG_S, Scene, running
from tests.waiting import until

pytestmark = pytest.mark.e2e

MIB = 60


@pytest.fixture
def state(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a test of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return state_file(os.environ)


@contextmanager
def a_broker() -> Iterator[grn.Server]:
    with grn.start("host:2x500MiB", max_jobs=4, debug=True) as server:
        try:
            yield server
        finally:
            forget_client()


def runs_kept(state: Path, job_type: str) -> int:
    """How many runs the file knows of, as another program reads it."""
    with closing(sqlite3.connect(state)) as connection:
        query = "SELECT coalesce(sum(runs), 0) FROM profiles WHERE job_type = ?"
        (runs,) = connection.execute(query, (job_type,)).fetchone()
        return int(runs)


def learn(scene: Scene, times: int = 1) -> None:
    for _ in range(times):
        grn.job(type="learned")(grabbing.hold)(scene.place, MIB)


def check_it_is_known(scene: Scene) -> None:
    """Two of the type start at once, and neither is measured."""
    gate = scene.close_gate()
    known = grn.job(type="learned")(grabbing.hold)
    before = len(scene.notes("holds"))
    jobs = [known.submit(scene.place, MIB, gate) for _ in range(2)]
    scene.await_notes("holds", before + 2)

    rows = running()
    scene.open_gate()
    assert all(job.result(LONG_S) for job in jobs)
    assert [row.measuring for row in rows] == [False, False]
    # Memory of the host is counted to the page, less what the process had before: roughly.
    assert all(row.predicted_bytes >= 0.9 * (MIB << 20) for row in rows)


def kill_broker(server: grn.Server) -> None:
    """Kill the broker, and end the next one that the supervisor starts, with all the rest."""
    pid = running_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    forget_client()
    server.stop()


def test_r62_after_a_stop_a_known_type_starts_without_measuring(
    state: Path, scene: Scene
) -> None:
    with a_broker():
        learn(scene)
        (before,) = all_profiles()
        assert scene.notes("holds")
    with a_broker():
        (after,) = all_profiles()

        assert after == before
        check_it_is_known(scene)


def test_r62_after_a_kill_of_the_broker_a_known_type_starts_without_measuring(
    state: Path, scene: Scene
) -> None:
    with a_broker() as server:
        learn(scene)
        until(lambda: runs_kept(state, "learned") == 1, 2)
        kill_broker(server)
    with a_broker():
        check_it_is_known(scene)


def test_brokers_killed_while_they_learn_leave_a_file_that_the_next_one_reads(
    state: Path, scene: Scene
) -> None:
    kept = 0
    for round_number in range(3):
        with a_broker() as server:
            assert sum(row.runs for row in all_profiles()) >= kept
            learn(scene, times=3 + round_number)
            until(lambda kept=kept: runs_kept(state, "learned") > kept, 2)  # type: ignore[misc]
            kept = runs_kept(state, "learned")
            kill_broker(server)
    with a_broker():
        check_it_is_known(scene)

    assert not list(state.parent.glob("*damaged*"))


def test_what_is_forgotten_stays_forgotten_after_a_kill(state: Path, scene: Scene) -> None:
    with a_broker() as server:
        learn(scene)
        until(lambda: runs_kept(state, "learned") == 1, 2)
        done = run("grn", "profiles", "forget", "learned")
        assert done.returncode == 0, done.stderr
        until(lambda: runs_kept(state, "learned") == 0, 2)
        kill_broker(server)
    with a_broker():
        assert all_profiles() == []


def test_a_damaged_file_stops_the_start_and_is_left_as_it_is(state: Path) -> None:
    state.parent.mkdir(mode=0o700, parents=True)
    state.write_bytes(b"not a database at all" * 1000)

    done = run("grn", "start", "--devices", "host:1x100MiB")

    said = done.stderr.decode()
    assert done.returncode == 1
    assert f"{state} is damaged" in said
    assert "move the whole directory" in said
    assert TRACEBACK not in said
    assert state.read_bytes() == b"not a database at all" * 1000


def test_a_file_of_a_newer_version_stops_the_start_with_a_word_on_what_to_do(
    state: Path,
) -> None:
    with a_broker():
        pass
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("PRAGMA user_version = 99")

    done = run("grn", "start", "--devices", "host:1x100MiB")

    assert done.returncode != 0
    said = done.stderr.decode()
    assert str(state) in said
    assert "Start the newer version" in said
    assert TRACEBACK not in said


def test_a_state_that_cannot_be_kept_stops_the_start(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/grn-state")

    done = run("grn", "start", "--devices", "host:1x100MiB")

    assert done.returncode == 1
    assert b"XDG_STATE_HOME" in done.stderr
    assert TRACEBACK.encode() not in done.stderr


@pytest.mark.parametrize("value", ["many", "0", "0.9", "nan", "-1"])
def test_a_wrong_overflow_is_named_as_it_was_given(state: Path, value: str) -> None:
    by_option = run("grn", "start", "--overflow", value, "--devices", "host:1x100MiB")
    by_variable = run(
        "grn", "start", "--devices", "host:1x100MiB", environment={"GRN_OVERFLOW": value}
    )

    assert by_option.returncode == 2
    assert b"--overflow" in by_option.stderr
    assert by_variable.returncode != 0
    assert b"GRN_OVERFLOW" in by_variable.stderr
    assert TRACEBACK.encode() not in by_variable.stderr
