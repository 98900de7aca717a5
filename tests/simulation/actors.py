"""Somebody with a connection to the broker, which breaks now and then."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grn_zmq import wire

if TYPE_CHECKING:
    from tests.simulation.world import World


class Actor:
    """A process that speaks with the broker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.alive = True
        self.welcomed = False
        # A process that stands still, or whose connection is gone for so long.
        self.silent_until = 0.0
        self.inbox: deque[wire.Message] = deque()
        self.outbox: deque[wire.Message] = deque()
        self.said: deque[wire.Message] = deque(maxlen=30)
        self.peer = world.connect(self)

    def say(self, message: wire.Message) -> None:
        self.outbox.append(message)
        self.said.append(message)

    def reconnect(self) -> None:
        """The connection breaks: what was on the way may be lost, late or still unread."""
        if self.rng.random() < 0.5:
            # Not a greeting of a client: of two, the broker cannot tell the newer one.
            late = [one for one in self.outbox if not isinstance(one, wire.Hello)]
            self.world.strays += [(self.peer, message) for message in late]
        self.world.broken.append(self.peer)
        self.outbox.clear()
        self._lose_unread()
        self.peer = self.world.connect(self)
        self.greet()
        if self.rng.random() < 0.3:
            self.reconnect()

    def find_new_broker(self) -> None:
        """Another broker answers: what the last one said may still be unread."""
        early = list(self.outbox) if self.rng.random() < 0.3 else []
        self.outbox.clear()
        self._lose_unread()
        self.peer = self.world.connect(self)
        self.outbox += [one for one in early if not isinstance(one, wire.Hello | wire.Greet)]
        self.greet()

    def _lose_unread(self) -> None:
        keep = self.rng.choice([0, len(self.inbox), self.rng.randint(0, len(self.inbox))])
        while len(self.inbox) > keep:
            self.inbox.pop()

    def fall_silent(self) -> None:
        self.silent_until = self.world.now + self.rng.uniform(3.0, 15.0)

    def greet(self) -> None:
        raise NotImplementedError

    def read(self) -> None:
        raise NotImplementedError
