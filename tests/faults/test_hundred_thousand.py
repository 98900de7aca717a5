"""A hundred thousand queued jobs: what they cost the broker, and how soon it is back."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Final

import pytest
import zmq

from grn_zmq import wire
from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from grn_zmq.records import Blob
from tests.builders import a_spec, an_id
from tests.cli.scripts import Running
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

JOBS: Final = 100_000
# What a user would call small: a pickled learning rate and a number.
PAYLOAD: Final = b"\x80\x05" + b"x" * 60
BLOB: Final = Blob("f" * 64, b"function")
CONTEXT: Final = Blob("c" * 64, b"context")


class Peer:
    """A client that has greeted; `ask` waits for the next answer of one kind."""

    def __init__(self, number: int) -> None:
        address = find_address(find_places(os.environ))
        assert address is not None
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(60_000 * PATIENCE)
        self.socket.connect(address.clients)
        self.say(wire.Hello(wire.PROTOCOL, an_id(number), os.getpid()))
        self.hear(wire.Welcome)

    def say(self, message: wire.Message) -> None:
        self.socket.send_multipart(wire.encode(message))

    def hear(self, kind: type[wire.Message]) -> wire.Message:
        while True:
            message = wire.decode(self.socket.recv_multipart())
            if isinstance(message, kind):
                return message

    def close(self) -> None:
        self.socket.close()
        self._context.term()


def resident_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


def submit_all(peer: Peer) -> None:
    peer.say(wire.Blobs((BLOB, CONTEXT)))
    most = wire.MAX_JOBS_PER_MESSAGE
    for at in range(0, JOBS, most):
        numbers = range(at + 1, min(JOBS, at + most) + 1)
        specs = tuple(
            a_spec(
                0,
                job_id=f"{number * 7919:032x}",
                function=BLOB.digest,
                context=CONTEXT.digest,
                detached=True,
                payload=PAYLOAD + number.to_bytes(4, "big"),
            )
            for number in numbers
        )
        peer.say(wire.Submit(specs))
        peer.hear(wire.Accepted)


def started() -> Running:
    running = Running("grn-broker")
    until(lambda: find_address(find_places(os.environ)), 30, running.said)
    return running


def test_a_queue_of_a_hundred_thousand_is_small_and_soon_back(home: Path) -> None:
    with started() as first:
        peer = Peer(1)
        before = resident_bytes(first.process.pid)
        submit_all(peer)
        each = (resident_bytes(first.process.pid) - before) / JOBS
        peer.close()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()

    began = time.monotonic()
    with started() as second:
        peer = Peer(2)
        peer.say(wire.AskJobs(JOBS - 10, ended=False))
        rows = peer.hear(wire.JobsAre)
        took_s = time.monotonic() - began
        grown = (resident_bytes(second.process.pid) - before) / JOBS
        peer.close()
    print(f"{each:.0f} bytes each, {grown:.0f} after the restart in {took_s:.2f} s")

    assert isinstance(rows, wire.JobsAre)
    assert [row.number for row in rows.rows] == list(range(JOBS - 9, JOBS + 1))
    assert each <= 1024
    assert grown <= 1024
    assert took_s <= 3 * PATIENCE
