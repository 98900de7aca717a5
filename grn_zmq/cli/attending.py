"""Waiting for the end of jobs, whoever submitted them, without opening what they gave."""

import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from .. import wire
from ..batches import parts
from ..errors import BrokerUnavailable
from ..refusals import refusal
from .asking import PATIENCE_S
from .contact import Contact, find_broker

# After so long without a word the broker is asked whether it still knows us.
LISTEN_S: Final = 3.0
LOOK_AGAIN_S: Final = 0.05
IDS_PER_MESSAGE: Final = 1000
# There is nothing to hand over any more: whoever wants to know must ask for it.
_OVER: Final = frozenset({"result-expired", "unknown-job"})


class Attendant:
    """Is told when jobs end, by this broker or the next, over a connection of its own."""

    def __init__(self) -> None:
        self._session = uuid.uuid4().hex
        self._contact: Contact | None = None
        self._broker_pid = 0
        self._gone_at: float | None = None
        # The jobs of whose end this connection brings news.
        self._attached: set[str] = set()

    def ended(self, job_ids: Sequence[str], seconds: float) -> set[str]:
        """Wait for a while until some of them have ended, and give those.

        Raises:
            BrokerUnavailable: There is no broker, and none comes back.
            RequestRefused: The broker does not speak to us.
        """
        deadline = time.monotonic() + min(seconds, LISTEN_S)
        contact = self._connected()
        if contact is None:
            time.sleep(min(seconds, LOOK_AGAIN_S))
            return set()
        self._attach(contact, [one for one in job_ids if one not in self._attached])
        found: set[str] = set()
        while not found and (left_s := deadline - time.monotonic()) > 0:
            found |= self._heard(contact, left_s)
        while more := self._heard(contact, 0.0):  # what has come along with it
            found |= more
        if not found:
            # A connection that was cut is made anew without a word to us. The broker says
            # then that it does not know us.
            contact.send(wire.Attach(tuple(job_ids[:1])))
        return found

    def _attach(self, contact: Contact, job_ids: Sequence[str]) -> None:
        for part in parts(job_ids, IDS_PER_MESSAGE):
            contact.send(wire.Attach(part))
        self._attached |= set(job_ids)

    def _heard(self, contact: Contact, seconds: float) -> set[str]:
        """The jobs of which the next message says that they have ended."""
        match contact.hear(seconds):
            case wire.Ended(outcomes):
                told = tuple(one.job_id for one in outcomes)
                contact.send(wire.Received(told))  # else no more would come
                self._attached.difference_update(told)
                return set(told)
            case wire.Refused(reason="greet-first"):
                contact.greet()
                again, self._attached = list(self._attached), set()
                self._attach(contact, again)
            case wire.Refused(reason, text, job_ids):
                if reason not in _OVER:
                    raise refusal(reason, text)
                return set(job_ids)
        return set()

    def _connected(self) -> Contact | None:
        """Give the connection to the broker that lives; None while none does, but may soon."""
        address = find_broker()
        if address is None:
            self._gone_at = self._gone_at or time.monotonic()
            if time.monotonic() - self._gone_at > PATIENCE_S:
                raise BrokerUnavailable(f"the broker has been gone for {PATIENCE_S:.0f} s")
            return None
        self._gone_at = None
        if self._contact is None or self._broker_pid != address.pid:
            self.close()
            self._contact = Contact(address.clients, self._session)
            self._broker_pid, self._attached = address.pid, set()
        return self._contact

    def close(self) -> None:
        if self._contact is not None:
            self._contact.close()
            self._contact = None

    def __enter__(self) -> "Attendant":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
