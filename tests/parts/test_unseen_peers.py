"""Processes of another pid namespace: what is believed of them, and by what proof."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.server import BrokerServer
from broker.settings import Settings
from broker.unseen import AWAY_S, Unseen
from broker.watching import Watching
from grn_zmq import lifelock, wire
from grn_zmq.discovery import Address, BrokerLock, find_address, pid_namespace, shares_pids
from grn_zmq.lifelock import hold_life, is_held, shows_life, watch_life
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import Places, find_places
from tests.builders import a_greet, a_hello, a_run, an_attempt, an_id
from tests.waiting import until
from tests.workers.acting import EPOCH, a_worker, assign
from workers.launcher import ExecLauncher
from workers.pool import Pool

LIVING = "import sys; from pathlib import Path; from grn_zmq.lifelock import hold_life;"
LIVING += "hold_life(Path(sys.argv[1])); print('lives', flush=True); sys.stdin.read()"


@contextmanager
def a_life(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has locked this file."""
    with subprocess.Popen(
        [sys.executable, "-c", LIVING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "lives\n"
        yield process
        process.kill()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path / "grn")
    places.make()
    return places


@pytest.mark.e2e
def test_p19_a_life_is_shown_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "life"
    with a_life(path) as process:
        fd = watch_life(path)
        assert fd is not None
        assert is_held(fd)
        assert shows_life(path)
        process.send_signal(signal.SIGSTOP)
        assert is_held(fd)

        process.kill()

        until(lambda: not is_held(fd), 5)
        assert not shows_life(path)
        os.close(fd)


@pytest.mark.e2e
def test_a_forked_child_does_not_hold_the_life_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "life"
    fork = LIVING.replace("sys.stdin", "import os; os.fork() or sys.stdin")
    with subprocess.Popen(
        [sys.executable, "-c", fork, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        parent.wait()

        assert not shows_life(path)  # while the child waits for its input


def test_a_life_whose_file_was_removed_is_shown_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "life"
    hold_life(path)
    first = lifelock._held[path]
    hold_life(path)
    assert lifelock._held[path] == first

    path.unlink()
    hold_life(path)

    assert path.exists()
    assert lifelock._held[path] != first
    assert watch_life(tmp_path / "nobody's") is None


def test_nothing_is_locked_where_there_is_no_directory(tmp_path: Path) -> None:
    hold_life(tmp_path / "nowhere" / "life")

    assert not shows_life(tmp_path / "nowhere" / "life")


def test_p19_the_address_tells_whether_its_pids_are_ours(places: Places) -> None:
    lock = BrokerLock(places)
    lock.publish(Address(os.getpid(), os.getpid(), f"ipc://{places.clients_socket}", ""))
    found = find_address(places)
    assert found is not None
    assert found.near
    assert places.namespace.read_text() == pid_namespace()

    places.namespace.write_text("1")

    found = find_address(places)
    assert found is not None
    assert not found.near
    assert found.pid == os.getpid()  # it still tells this broker from the next
    assert not shares_pids(places)
    lock.close()


def test_of_a_broker_that_does_not_say_its_pids_are_believed_to_be_ours(places: Places) -> None:
    assert shares_pids(places)


def test_an_earlier_version_can_read_the_address(places: Places) -> None:
    lock = BrokerLock(places)
    lock.publish(Address(1, 2, "ipc://c", "ipc://w"))
    lock.close()

    assert places.address.read_text() == (
        '{"pid": 1, "supervisor_pid": 2, "clients": "ipc://c", "workers": "ipc://w"}'
    )


def test_p19_sockets_are_looked_for_beside_the_address_if_not_where_it_says(
    places: Places,
) -> None:
    places.clients_socket.touch()
    lock = BrokerLock(places)
    lock.publish(Address(os.getpid(), 0, "ipc:///there/c", "ipc:///there/w"))

    found = find_address(places)

    assert found is not None
    assert found.clients == f"ipc://{places.clients_socket}"
    assert found.workers == f"ipc://{places.workers_socket}"
    lock.close()


def test_p19_who_has_no_pid_here_is_not_gone() -> None:
    watching = Watching()

    watching.watch("a", 0)

    assert watching.take_gone() == []
    watching.close()


def test_p19_a_worker_that_cannot_be_seen_is_lost_when_it_does_not_come_back() -> None:
    unseen = Unseen()
    unseen.greeted(b"1", a_greet(0, pid=0))
    unseen.greeted(b"2", a_greet(1, pid=0))
    unseen.greeted(b"3", a_greet(2))

    for peer in (b"1", b"2", b"3"):
        unseen.disconnected(peer, 0.0)
    unseen.greeted(b"4", a_greet(1, pid=0))

    assert unseen.overdue(AWAY_S - 1) == []
    assert unseen.overdue(AWAY_S) == [a_greet(0).incarnation]
    assert unseen.overdue(2 * AWAY_S) == []


def test_a_worker_whose_old_connection_ends_after_it_has_a_new_one_is_here() -> None:
    unseen = Unseen()
    unseen.greeted(b"1", a_greet(0, pid=0))
    unseen.greeted(b"2", a_greet(0, pid=0, greeting=2))

    unseen.disconnected(b"1", 0.0)

    assert unseen.overdue(AWAY_S) == []


@pytest.mark.e2e
def test_p19_a_caller_that_cannot_be_seen_is_gone_when_its_life_is(tmp_path: Path) -> None:
    pool = Pool(ExecLauncher())
    path = tmp_path / "life"
    with a_life(path) as process:
        assert pool.watch_caller("job", 0, watch_life(path))
        assert pool.caller_tree("job") is None  # nothing can be said of what it uses
        assert list(pool.events()) == []

        process.kill()

        until(lambda: list(pool.events()) == ["job"], 5)
    pool.unwatch_caller("job")
    assert list(pool.events()) == []
    pool.close()


def test_p19_a_lease_that_nothing_here_can_watch_ends_when_the_broker_says_so() -> None:
    core = a_worker()
    leases = [a_run(number, kind="lease", function="", context="") for number in (1, 2)]
    assign(core, *leases)
    core.caller_unseen(an_id(2))

    for number in (1, 2):
        core.handle(wire.End(EPOCH, "terminate", (an_attempt(number),)), 1.0)

    assert list(core.runs) == [an_id(1)]


@pytest.mark.e2e
def test_p19_a_client_that_cannot_be_seen_is_not_given_up_while_its_life_is_shown(
    home: Path,
) -> None:
    places = find_places(os.environ)
    parcels = find_parcels(os.environ)
    server = BrokerServer(places, home / "grn" / "state.db", parcels, Settings(away_s=1.0))
    session = a_hello().session
    server.core.handle(b"c1", a_hello(pid=0), 0.0)
    with a_life(places.life(session)):
        server.core.disconnected(b"c1", 0.0)
        server._tick(0.0)
        assert session in server.core.book.sessions
    until(lambda: not shows_life(places.life(session)), 5)

    server.core.excuse(server.core.book.sessions[session], 0.0)
    server._tick(0.0)

    assert session not in server.core.book.sessions
    assert not places.life(session).exists()
    server._close()
