"""Messages on their way out. A full or vanished peer never blocks the loop."""

from collections import deque
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire

# What a peer may leave unread before more of its jobs' output is dropped; nothing else is.
MAX_OUTPUT_WAITING: Final = 256


class Outbox:
    """Sends at once where it can, keeps the rest in order, peer by peer."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._socket = socket
        self._waiting: dict[bytes, deque[wire.Frames]] = {}

    @property
    def empty(self) -> bool:
        return not self._waiting

    def send(self, routing_id: bytes, message: wire.Message) -> None:
        try:
            frames = wire.encode(message)
        except (ValueError, OverflowError) as error:  # too large, no Unicode, beyond 64 bits
            # A bug of ours, but no reason to end everybody's jobs.
            logger.bind(facts={"why": str(error)}).error("could not send an answer")
            return
        if routing_id in self._waiting or not self._try(routing_id, frames):
            waiting = self._waiting.setdefault(routing_id, deque())
            if isinstance(message, wire.Output) and len(waiting) >= MAX_OUTPUT_WAITING:
                logger.warning("dropped output: its client does not read it")
                return
            waiting.append(frames)

    def flush(self) -> None:
        """Try again what a peer had no room for."""
        for routing_id in list(self._waiting):
            waiting = self._waiting[routing_id]
            while waiting and self._try(routing_id, waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._waiting[routing_id]

    def _try(self, routing_id: bytes, frames: wire.Frames) -> bool:
        """Whether the message is off our hands: sent, or its peer is gone."""
        try:
            self._socket.send_multipart([routing_id, *frames], flags=zmq.DONTWAIT)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            logger.debug("a peer is gone before its message")
        return True
