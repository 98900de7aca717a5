"""Workers in another pid namespace: the kernel tells us nothing of their end. Pure.

Such a worker lives as long as its connection. One that has lost it greets again at once, so
who does not is gone, or stands still and is told what became of its jobs when it is back.
"""

from typing import Final

from grn_zmq import wire

from .effects import Peer

# As long as a dead worker's next incarnation is waited for.
AWAY_S: Final = 8.0


class Unseen:
    """The workers whose pid nobody can watch, and since when they are away."""

    def __init__(self) -> None:
        self._names: dict[Peer, str] = {}
        self._away: dict[str, float] = {}

    def greeted(self, peer: Peer, message: wire.Greet) -> None:
        """A worker is here; only one without a pid is any concern of ours."""
        if not message.pid:
            self._names[peer] = message.incarnation
            self._away.pop(message.incarnation, None)

    def disconnected(self, peer: Peer, now: float) -> None:
        """A connection is gone; that of a worker which has another by now does not count."""
        name = self._names.pop(peer, None)
        if name is not None and name not in self._names.values():
            self._away[name] = now

    def overdue(self, now: float) -> list[str]:
        """Give those that have not come back, once."""
        over = [name for name, since in self._away.items() if now - since >= AWAY_S]
        for name in over:
            del self._away[name]
        return over
