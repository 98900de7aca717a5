"""A broker that cannot say its answer says so, and its client raises instead of waiting."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from broker.outbox import Outbox
from grn_zmq import wire
from grn_zmq.client import Client
from grn_zmq.discovery import Address, BrokerLock
from grn_zmq.errors import RequestRefused
from grn_zmq.paths import find_places
from tests.builders import a_spec, an_id, an_outcome

BEYOND_64_BITS = 2**70
LONG_S = 20.0


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The client of a broker whose every answer is a number too large for a message."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    places = find_places(os.environ)
    places.make()
    lock = BrokerLock(places)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        url = f"ipc://{places.clients_socket}"
        router.bind(url)
        lock.publish(Address(os.getpid(), os.getpid(), clients=url, workers=""))
        done = threading.Event()
        serving = threading.Thread(target=serve, args=(router, done))
        serving.start()
        client = Client()
        yield client
        client.close()
        done.set()
        serving.join()
    lock.close()


def serve(router: "zmq.Socket[bytes]", done: threading.Event) -> None:
    outbox = Outbox(router)
    while not done.is_set():
        if not router.poll(50):
            continue
        peer, *frames = router.recv_multipart()
        match wire.decode(frames):
            case wire.Hello():
                outbox.send(peer, wire.Welcome(wire.PROTOCOL, 1, os.getpid()))
            case wire.Submit(jobs):
                ids = [int(one.job_id, 16) for one in jobs]
                ended = [an_outcome(n, peak_bytes=BEYOND_64_BITS) for n in ids]
                outbox.send(peer, wire.Ended(tuple(ended)))
            case wire.ForgetProfiles():
                outbox.send(peer, wire.Forgotten(BEYOND_64_BITS))


def test_a_job_whose_end_cannot_be_told_raises(client: Client) -> None:
    pending = client.submit(a_spec(1, job_id=an_id(1)), ())

    with pytest.raises(RequestRefused, match="could not send its answer") as caught:
        pending.future.result(LONG_S)

    assert caught.value.reason == "internal"


def test_a_question_whose_answer_cannot_be_told_raises(client: Client) -> None:
    with pytest.raises(RequestRefused, match="could not send its answer"):
        client.ask(wire.ForgetProfiles(("t",)), wire.Forgotten)
