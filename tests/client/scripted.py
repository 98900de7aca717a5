"""A broker that a test plays: it says what the test says, and dies when the test wants."""

import atexit
import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import IO, TypeVar

import zmq

from grn_zmq import wire
from grn_zmq.client import Client
from grn_zmq.discovery import Address
from grn_zmq.paths import find_places
from grn_zmq.records import Begun, JobSpec, Numbered, Outcome
from tests.waiting import PATIENCE

M = TypeVar("M", bound=wire.Message)


class ScriptedBroker:
    """A socket where clients look for one, and a process whose death is the broker's."""

    def __init__(self, epoch: int = 1, granted: int = 1024) -> None:
        self.places = find_places(os.environ)
        self.places.make()
        self.epoch, self.granted = epoch, granted
        self.peer = b""
        self.heard: list[wire.Message] = []
        self._life = subprocess.Popen(["sleep", "300"])
        self._lock: IO[str] = open(self.places.lock, "w")  # noqa: SIM115
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.write(str(self._life.pid))
        self._lock.flush()
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.bind()

    def bind(self) -> None:
        clients = f"ipc://{self.places.clients_socket}"
        self.socket.bind(clients)
        address = Address(self._life.pid, self._life.pid, clients, clients)
        self.places.address.write_text(json.dumps(asdict(address)))

    def hear(self, kind: type[M], seconds: float = 10.0) -> M:
        """Wait for the next message of this kind; what comes before it is remembered."""
        deadline = time.monotonic() + seconds * PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            message = self.next(left)
            if isinstance(message, kind):
                return message
        raise AssertionError(f"no {kind.__name__}, but {self.heard}")

    def next(self, seconds: float) -> wire.Message | None:
        if not self.socket.poll(int(seconds * 1000) + 1):
            return None
        self.peer, *frames = self.socket.recv_multipart()
        message = wire.decode(frames)
        self.heard.append(message)
        return message

    def quiet(self, seconds: float = 0.1) -> bool:
        """Whether nothing more comes for so long."""
        return self.next(seconds) is None

    def say(self, message: wire.Message) -> None:
        self.socket.send_multipart([self.peer, *wire.encode(message)])

    def welcome(self) -> wire.Hello:
        """Hear a greeting, and answer it."""
        hello = self.hear(wire.Hello)
        self.say(wire.Welcome(wire.PROTOCOL, self.epoch, os.getpid(), 0, self.granted))
        return hello

    def accept(self, *specs: JobSpec) -> None:
        self.say(wire.Accepted(tuple(Numbered(one.job_id, 1) for one in specs)))

    def begin(self, job_id: str, attempt: int = 1) -> None:
        self.say(wire.Started((Begun(job_id, attempt, "host:0", False, {}),)))

    def end(self, *outcomes: Outcome) -> None:
        self.say(wire.Ended(outcomes))

    def cut(self) -> None:
        """Close all streams and listen again; the process lives on."""
        self.socket.close(linger=0)
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.bind()

    def die(self) -> None:
        """As by kill -9: the lock is free, the socket closed, the address left behind."""
        self.socket.close(linger=0)
        self._context.term()
        self._life.kill()
        self._life.wait()
        self._lock.close()

    def close(self) -> None:
        with suppress(Exception):
            self.die()
        self.places.address.unlink(missing_ok=True)


@contextmanager
def a_broker(epoch: int = 1, granted: int = 1024) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(epoch, granted)
    try:
        yield broker
    finally:
        broker.close()


@contextmanager
def a_client(patience_s: float = 60.0) -> Iterator[Client]:
    """A client of its own, that does not wait for anything at the end of the tests."""
    client = Client()
    client.patience_s = patience_s
    try:
        yield client
    finally:
        client.close()
        atexit.unregister(client._at_exit)


def connect(client: Client, broker: ScriptedBroker) -> None:
    """Let a client greet for the first time; from here on it waits for nobody."""
    thread = threading.Thread(target=client.connect)
    thread.start()
    broker.welcome()
    thread.join()
