"""Messages on their way out. A full or vanished peer never blocks the loop."""

from collections import deque
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire
from grn_zmq.batches import parts

# What a peer may leave unread before more of its jobs' output is dropped; nothing else is.
MAX_OUTPUT_WAITING: Final = 256
# Of an error, in characters: messages are bounded.
MOST_SAID: Final = 1000


class Outbox:
    """Sends at once where it can, keeps the rest in order, peer by peer."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._socket = socket
        self._waiting: dict[bytes, deque[wire.Frames]] = {}

    @property
    def empty(self) -> bool:
        return not self._waiting

    def send(
        self, routing_id: bytes, message: wire.Message, protocol: int = wire.PROTOCOL
    ) -> None:
        """Send a message, in the words of this protocol."""
        try:
            frames = wire.encode(message, protocol)
        except (ValueError, OverflowError) as error:  # too large, no Unicode, beyond 64 bits
            # A bug of ours, but no reason to end everybody's jobs.
            if isinstance(message, wire.Ended) and len(message.outcomes) > 1:
                for outcome in message.outcomes:
                    self.send(routing_id, wire.Ended((outcome,)), protocol)
                return
            logger.bind(facts={"why": str(error)}).error("could not send an answer")
            for refusal in _instead_of(message, error):
                self.send(routing_id, refusal)
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


def _instead_of(message: wire.Message, error: Exception) -> list[wire.Refused]:
    """What its peer gets instead, so that nobody waits for ever; nothing if nobody waits."""
    match message:
        case wire.Ended():
            job_ids = tuple(one.job_id for one in message.outcomes)
        case wire.Accepted():
            job_ids = tuple(one.job_id for one in message.jobs)
        case wire.Started():
            job_ids = tuple(one.job_id for one in message.runs)
        case wire.JobsAre() | wire.DevicesAre() | wire.ProfilesAre() | wire.Forgotten():
            job_ids = ()
        case _ if isinstance(message, wire.Answer):
            job_ids = ()
        case _:
            return []
    why = str(error).encode("ascii", "backslashreplace").decode()[:MOST_SAID]
    text = f"the broker could not send its answer ({message.kind}): {why}. This is a bug of grn"
    batches = parts(job_ids, wire.MAX_JOBS_PER_MESSAGE) or [()]
    return [wire.Refused("internal", text, batch) for batch in batches]
