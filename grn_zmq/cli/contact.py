"""A connection to one broker, without a thread: for commands that ask, wait or watch."""

import contextlib
import math
import os
import time

import zmq

from .. import wire
from ..discovery import Address, find_address, is_locked
from ..errors import BrokerUnavailable
from ..paths import find_places
from ..refusals import refusal


def find_broker() -> Address | None:
    """Say where the broker of this user is; None while one is starting, or comes back.

    Raises:
        BrokerUnavailable: There is none, and nobody starts one.
    """
    places = find_places(os.environ)
    address = find_address(places)
    if address is None and not is_locked(places):
        raise BrokerUnavailable(f"no broker is running in {places.directory}")
    return address


class Contact:
    """Greets one broker, sends to it and hears it; used up when that broker dies."""

    def __init__(self, clients: str, session: str) -> None:
        """Connect and greet, without waiting for anybody.

        Args:
            clients: Where the broker listens to clients.
            session: Under which the broker knows us, on this connection and the next.
        """
        self._session = session
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(clients)
        self.greet()

    def greet(self) -> None:
        """Say who we are; anew where the broker has lost our connection."""
        self.send(wire.Hello(wire.PROTOCOL, self._session, os.getpid()))

    def send(self, message: wire.Message, *, wait: bool = True) -> None:
        """Send a message; with `wait=False` it is dropped where nobody reads what we send.

        Raises:
            RequestRefused: No message can say this.
        """
        try:
            frames = wire.encode(message)
        except ValueError as error:  # BadMessage, or text that is no Unicode
            raise refusal("bad-request", f"this cannot be asked: {error}") from None
        with contextlib.suppress(*(() if wait else (zmq.Again,))):
            self.socket.send_multipart(frames, flags=0 if wait else zmq.DONTWAIT)

    def hear(self, seconds: float) -> wire.Message | None:
        """Give the next message; None if none comes in time."""
        deadline = time.monotonic() + seconds
        while self.socket.poll(math.ceil(max(0.0, deadline - time.monotonic()) * 1000)):
            with contextlib.suppress(wire.BadMessage):  # a newer broker has more to say
                return wire.decode(self.socket.recv_multipart())
        return None

    def close(self) -> None:
        """Let go; what was not sent yet is not sent any more."""
        self.socket.close()
        self._context.term()
