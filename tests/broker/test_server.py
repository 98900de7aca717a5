"""The broker behind its real sockets: whatever arrives, good clients are served."""

import fcntl
import os
import random
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import zmq

from grn_zmq import wire
from grn_zmq.client import Client
from grn_zmq.codec import MAX_HEADER_BYTES
from grn_zmq.discovery import Address, BrokerLock, find_address, is_locked
from grn_zmq.errors import BrokerRunning, VersionMismatch
from grn_zmq.paths import Places, find_places
from tests.builders import a_greet, a_piece, a_spec, an_id
from tests.cli.scripts import TRACEBACK, Running
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

ANSWER_MS: Final = round(3000 * PATIENCE)
ROUNDS: Final = 1000
FEW_FILES: Final = 256


class Peer:
    """One side of a conversation, with no manners of its own."""

    def __init__(self, path: Path) -> None:
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, ANSWER_MS)
        self.socket.connect(f"ipc://{path}")

    def say(self, message: wire.Message) -> None:
        self.socket.send_multipart(wire.encode(message))

    def hear(self) -> wire.Message:
        assert self.socket.poll(ANSWER_MS), "the broker does not answer"
        return wire.decode(self.socket.recv_multipart())

    def ask(self, message: wire.Message) -> wire.Message:
        self.say(message)
        return self.hear()

    def close(self) -> None:
        self.socket.close()
        self._context.term()


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[Running]:
    """A broker without workers, started by somebody who may open few files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, before[1]))
    try:
        starting = Running("grn-broker", "--debug")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with starting as running:
        until(lambda: find_address(find_places(os.environ)), 20, running.said)
        yield running
        assert running.process.poll() is None, running.said()


@pytest.fixture
def places(broker: Running) -> Places:
    return find_places(os.environ)


@pytest.fixture
def good(places: Places) -> Iterator[Peer]:
    """A client that has greeted."""
    peer = Peer(places.clients_socket)
    assert isinstance(peer.ask(a_hello()), wire.Welcome)
    yield peer
    peer.close()


@pytest.fixture(params=["clients_socket", "workers_socket"])
def path(places: Places, request: pytest.FixtureRequest) -> Path:
    path: Path = getattr(places, request.param)
    return path


def a_hello(protocol: int = wire.PROTOCOL) -> wire.Hello:
    return wire.Hello(protocol, os.urandom(16).hex(), os.getpid())


def is_served(peer: Peer) -> bool:
    return isinstance(peer.ask(wire.AskDevices()), wire.DevicesAre)


def random_bytes(dice: random.Random) -> list[bytes]:
    return [dice.randbytes(dice.randrange(200)) for _ in range(dice.randrange(1, 5))]


def empty_frames(dice: random.Random) -> list[bytes]:
    return [b""] * dice.randrange(1, 300)


def bent(dice: random.Random) -> list[bytes]:
    """A good message with some bytes changed, cut off or added."""
    frames = list(wire.encode(dice.choice(GOOD)))
    at = dice.randrange(len(frames))
    frame = bytearray(frames[at])
    match dice.randrange(3):
        case 0:
            del frame[dice.randrange(len(frame) + 1) :]
        case 1:
            frame += dice.randbytes(dice.randrange(1, 20))
        case _:
            for _ in range(dice.randrange(1, 6)):
                frame[dice.randrange(len(frame))] = dice.randrange(256)
    frames[at] = bytes(frame)
    return frames


def out_of_place(dice: random.Random) -> list[bytes]:
    """A good message of the wrong side, or one before any greeting."""
    return wire.encode(dice.choice(GOOD))


def unknown_kind(dice: random.Random) -> list[bytes]:
    return [b"\x92\xa5magic\x90", dice.randbytes(10)]


def oversize(dice: random.Random) -> list[bytes]:
    return [bytes(MAX_HEADER_BYTES + 1)]


def nested_deeply(dice: random.Random) -> list[bytes]:
    return [b"\x91" * 5000]


GOOD: Final[list[wire.Message]] = [
    wire.Submit((a_spec(),)),
    wire.Cancel((an_id(1),), interrupt=True),
    wire.Attach((an_id(1),)),
    wire.AskJobs(0, ended=True),
    wire.Want(("digest",)),
    wire.Finished(1, ()),
    wire.Report(1, 2, 3, 0.5, ()),
    wire.Output((a_piece(1),)),
    wire.Welcome(wire.PROTOCOL, 1, 1),
    wire.Assign(1, ()),
]
# The dear ones less often.
BAD: Final[list[Callable[[random.Random], list[bytes]]]] = [
    *(random_bytes, empty_frames, bent, out_of_place, unknown_kind, nested_deeply) * 8,
    oversize,
]


def test_g34_a_thousand_malformed_messages_on_each_socket_disturb_nobody(
    broker: Running, places: Places, path: Path, good: Peer
) -> None:
    dice = random.Random(34)
    bad = Peer(path)

    for number in range(ROUNDS):
        bad.socket.send_multipart(dice.choice(BAD)(dice))
        if number % 50 == 0:
            assert is_served(good)
            bad.close()
            bad = Peer(path)
            if number % 100 == 0:
                bad.say(a_hello() if path == places.clients_socket else a_greet())

    bad.close()
    assert is_served(good)
    assert "ignored a malformed message" in broker.err
    assert TRACEBACK not in broker.err


def test_g34_what_is_not_even_zmtp_disturbs_nobody(
    broker: Running, path: Path, good: Peer
) -> None:
    dice = random.Random(35)
    open_ones = []
    for number in range(200):
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(str(path))
        raw.settimeout(5 * PATIENCE)
        try:
            raw.sendall(dice.randbytes(dice.randrange(200)))
        except OSError:
            pass  # it has hung up on us
        open_ones.append(raw)
        if number % 20 == 0:
            assert is_served(good)

    assert is_served(good)
    for raw in open_ones:
        raw.close()
    assert is_served(good)
    assert broker.process.poll() is None


def test_a_frame_that_announces_more_than_is_allowed_is_cut_off(
    broker: Running, path: Path, good: Peer
) -> None:
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(str(path))
    raw.settimeout(5 * PATIENCE)
    raw.sendall(zmtp_greeting())
    raw.sendall(zmtp_ready())
    before = resident_bytes(broker.pid)

    raw.sendall(b"\x02" + struct.pack(">Q", wire.MAX_FRAME_BYTES + 1) + b"x" * 1000)
    while raw.recv(4096):
        pass  # its own greeting, then the end

    raw.close()
    assert is_served(good)
    assert resident_bytes(broker.pid) - before < 64 << 20


def zmtp_greeting() -> bytes:
    """Version 3.0, mechanism NULL, not a server."""
    signature = b"\xff" + bytes(7) + b"\x01\x7f"
    return signature + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def zmtp_ready() -> bytes:
    kind = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    body = b"\x05READY" + kind
    return b"\x04" + bytes([len(body)]) + body


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_worker_cannot_speak_on_the_socket_of_clients(places: Places, good: Peer) -> None:
    for message in (wire.Finished(1, ()), wire.Report(0, 0, 0, 0.0, ())):
        answer = good.ask(message)
        assert isinstance(answer, wire.Refused)
        assert "does not belong on this socket" in answer.text

    assert is_served(good)


def test_who_has_not_greeted_is_told_to(places: Places) -> None:
    stranger = Peer(places.clients_socket)

    answer = stranger.ask(wire.Submit((a_spec(),)))

    stranger.close()
    assert isinstance(answer, wire.Refused)
    assert answer.reason == "greet-first"


def test_another_protocol_version_is_refused_with_both_numbers(places: Places) -> None:
    peer = Peer(places.clients_socket)

    answer = peer.ask(a_hello(protocol=99))

    peer.close()
    assert isinstance(answer, wire.Refused)
    assert answer.reason == "version"
    assert str(wire.PROTOCOL) in answer.text
    assert "99" in answer.text


def test_a_client_of_another_version_raises_version_mismatch(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PROTOCOL", 99)
    client = Client()

    with pytest.raises(VersionMismatch, match="99"):
        client.connect()

    client.close()


def test_a_client_that_lies_about_its_pid_does_not_harm(places: Places, good: Peer) -> None:
    for pid in (0, 1 << 62):
        liar = Peer(places.clients_socket)
        liar.say(replace(a_hello(), pid=pid))
        assert is_served(good)
        liar.close()

    assert is_served(good)


def test_the_broker_opens_as_many_files_as_it_may(broker: Running, good: Peer) -> None:
    soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)

    assert soft == hard > FEW_FILES


def test_a_client_that_never_reads_does_not_block_the_others(
    places: Places, good: Peer
) -> None:
    deaf = Peer(places.clients_socket)
    assert isinstance(deaf.ask(a_hello()), wire.Welcome)

    for _ in range(5000):
        deaf.say(wire.AskJobs(0, ended=True))

    for _ in range(20):
        assert is_served(good)
    deaf.socket.setsockopt(zmq.LINGER, 0)
    deaf.close()


def test_r80_nothing_listens_outside(broker: Running, good: Peer) -> None:
    inodes = {
        os.readlink(fd) for fd in Path(f"/proc/{broker.pid}/fd").iterdir() if fd.is_symlink()
    }
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{broker.pid}/net/{table}").read_text().splitlines()[1:]:
            assert f"socket:[{line.split()[9]}]" not in inodes


def test_a_look_at_the_lock_does_not_keep_a_broker_from_starting(tmp_path: Path) -> None:
    places = Places(tmp_path / "grn")
    places.make()
    BrokerLock(places).close()
    with open(places.lock) as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)  # as `is_locked` does, but longer
        threading.Timer(0.1, fcntl.flock, (looked_at, fcntl.LOCK_UN)).start()

        lock = BrokerLock(places)

    assert is_locked(places)
    lock.close()
    assert not is_locked(places)


def test_r77_the_lock_names_its_holder(places: Places, broker: Running) -> None:
    with pytest.raises(BrokerRunning) as caught:
        BrokerLock(places)

    assert caught.value.pid == broker.pid


def test_a_stale_address_does_not_count_while_the_next_broker_starts(tmp_path: Path) -> None:
    places = Places(tmp_path / "grn")
    places.make()
    lock = BrokerLock(places)
    ours = Address(pid=os.getpid(), supervisor_pid=os.getpid(), clients="", workers="")

    lock.publish(replace(ours, pid=1))
    stale = find_address(places)
    lock.publish(ours)
    fresh = find_address(places)

    lock.close()
    assert stale is None
    assert fresh == ours
    assert find_address(places) is None
