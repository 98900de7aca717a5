"""In which order a broker leaves: whoever comes next must find its own sockets."""

import os
from pathlib import Path

import pytest

from broker.server import BrokerServer
from grn_zmq.discovery import Address, BrokerLock, find_address, is_locked
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import Places, find_places

pytestmark = pytest.mark.e2e


@pytest.fixture
def places(home: Path) -> Places:
    return find_places(os.environ)


def sockets_of(places: Places) -> list[bool]:
    return [path.exists() for path in (places.clients_socket, places.workers_socket)]


def test_first_the_address_goes_then_the_sockets_then_the_lock(
    places: Places, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = home / "grn" / "state.db"
    server = BrokerServer(places, state, find_parcels(os.environ))
    server._lock.publish(Address(os.getpid(), os.getpid(), "ipc://c", "ipc://w"))
    assert find_address(places) is not None
    withdraw, close = BrokerLock.withdraw, BrokerLock.close
    seen: list[tuple[str, list[bool], bool]] = []

    def withdraw_and_look(lock: BrokerLock) -> None:
        withdraw(lock)
        seen.append(("address withdrawn", sockets_of(places), is_locked(places)))

    def look_and_close(lock: BrokerLock) -> None:
        seen.append(("about to let go", sockets_of(places), is_locked(places)))
        close(lock)

    monkeypatch.setattr(BrokerLock, "withdraw", withdraw_and_look)
    monkeypatch.setattr(BrokerLock, "close", look_and_close)
    server._close()

    assert seen == [
        ("address withdrawn", [True, True], True),
        ("about to let go", [False, False], True),
    ]
    assert not is_locked(places)
