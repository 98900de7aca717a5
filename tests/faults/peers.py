"""Peers that say what a test tells them to: clients and workers without any code behind."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import zmq

from grn_zmq import wire
from grn_zmq.discovery import Address, find_address
from grn_zmq.paths import Places
from tests.cli.scripts import Running
from tests.waiting import PATIENCE, until

M = TypeVar("M", bound=wire.Message)


class Peer:
    """One connection to a broker."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", address: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)
        self.heard: list[wire.Message] = []

    def say(self, *messages: wire.Message) -> None:
        for message in messages:
            self._socket.send_multipart(wire.encode(message))

    def hear(self, kind: type[M], seconds: float = 10.0) -> M:
        """Wait for a message of this kind, past all others."""
        deadline = time.monotonic() + seconds * PATIENCE
        while self._socket.poll(max(0, int(1000 * (deadline - time.monotonic())))):
            message = wire.decode(self._socket.recv_multipart())
            self.heard.append(message)
            if isinstance(message, kind):
                return message
        raise AssertionError(f"no {kind.kind}, only {self.heard}")

    def close(self) -> None:
        self._socket.close()


class Peers:
    """Makes peers, and lets go of all of them in the end."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._made: list[Peer] = []

    def connect(self, address: str) -> Peer:
        peer = Peer(self._context, address)
        self._made.append(peer)
        return peer

    def close(self) -> None:
        for peer in self._made:
            peer.close()
        self._context.term()


@contextmanager
def lonely_broker(places: Places) -> Iterator[tuple[Running, Address]]:
    """A broker without workers; its state stays when it is gone."""
    with Running("grn-broker") as running:
        found: list[Address] = []

        def serves() -> bool:
            # The address of a killed broker stays until the next one has taken the lock.
            address = find_address(places)
            if address is not None and address.pid == running.process.pid:
                found.append(address)
            return bool(found)

        until(serves, 20, running.said)
        yield running, found[0]
