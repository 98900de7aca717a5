"""Waiting for the end of jobs, whoever submitted them, without opening what they gave."""

import os
import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Final

import zmq

from .. import wire
from ..batches import parts
from ..discovery import find_address, is_locked
from ..errors import BrokerUnavailable
from ..paths import find_places
from ..refusals import refusal
from .asking import PATIENCE_S

# Asked again after so long: what was said may be lost with a broker.
LISTEN_S: Final = 3.0
LOOK_AGAIN_S: Final = 0.05
IDS_PER_MESSAGE: Final = 1000
# There is nothing to hand over any more: whoever wants to know must ask for it.
_OVER: Final = frozenset({"result-expired", "unknown-job"})


class Attendant:
    """Is told when jobs end, by this broker or the next, over a connection of its own."""

    def __init__(self) -> None:
        self._session = uuid.uuid4().hex
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._broker_pid = 0
        self._gone_at: float | None = None

    def ended(self, job_ids: Sequence[str], seconds: float) -> set[str]:
        """Wait for a while until some of them have ended, and give those.

        Raises:
            BrokerUnavailable: There is no broker, and none comes back.
            RequestRefused: The broker does not speak to us.
        """
        deadline = time.monotonic() + min(seconds, LISTEN_S)
        if not self._connected():
            time.sleep(min(seconds, LOOK_AGAIN_S))
            return set()
        for part in parts(job_ids, IDS_PER_MESSAGE):
            self._send(wire.Attach(part))
        found: set[str] = set()
        while not found and (left_s := deadline - time.monotonic()) > 0:
            found |= self._heard(left_s)
        while more := self._heard(0.0):  # what has come along with it
            found |= more
        return found

    def _heard(self, seconds: float) -> set[str]:
        """The jobs of which the next message says that they have ended."""
        assert self._socket is not None
        if not self._socket.poll(int(seconds * 1000)):
            return set()
        match wire.decode(self._socket.recv_multipart()):
            case wire.Ended(outcomes):
                told = tuple(one.job_id for one in outcomes)
                self._send(wire.Received(told))  # else no more would come
                return set(told)
            case wire.Refused(reason, text, job_ids):
                if reason not in _OVER:
                    raise refusal(reason, text)
                return set(job_ids)
        return set()

    def _connected(self) -> bool:
        """Whether we speak to the broker that lives; False while none does, but may soon."""
        places = find_places(os.environ)
        address = find_address(places)
        if address is None:
            self._gone_at = self._gone_at or time.monotonic()
            if not is_locked(places):
                raise BrokerUnavailable(f"no broker is running in {places.directory}")
            if time.monotonic() - self._gone_at > PATIENCE_S:
                raise BrokerUnavailable(f"the broker has been gone for {PATIENCE_S:.0f} s")
            return False
        self._gone_at = None
        if self._broker_pid != address.pid:
            self._connect(address.clients)
            self._broker_pid = address.pid
        return True

    def _connect(self, clients: str) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(clients)
        self._send(wire.Hello(wire.PROTOCOL, self._session, os.getpid()))

    def _send(self, message: wire.Message) -> None:
        assert self._socket is not None
        self._socket.send_multipart(wire.encode(message))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._context.term()

    def __enter__(self) -> "Attendant":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
