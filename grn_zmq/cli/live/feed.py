"""Scenes from the broker that lives now, asked for without waiting: whoever draws goes on."""

import os
import uuid
from typing import TYPE_CHECKING, Final

from ... import wire
from ...discovery import find_address, is_locked
from ...errors import VersionMismatch
from ...paths import find_places
from ..contact import Contact

if TYPE_CHECKING:
    import zmq

# A broker that says nothing for so long is greeted anew, or the next one, if there is one.
AGAIN_S: Final = 3.0


class Feed:
    """One question at a time, and orders; over the deaths of brokers."""

    def __init__(self) -> None:
        # One session for all brokers: each keeps it until we end.
        self._session = uuid.uuid4().hex
        self._contact: Contact | None = None
        self._pid = 0
        self._asked_at: float | None = None
        self._silent_since: float | None = None

    @property
    def socket(self) -> "zmq.Socket[bytes] | None":
        """What becomes readable when the broker has said something; None without a broker."""
        return None if self._contact is None else self._contact.socket

    @property
    def asking(self) -> bool:
        """Whether an answer is on its way."""
        return self._asked_at is not None

    def ask(self, first: int, most: int, now: float) -> bool:
        """Ask for a scene; False if there is no broker, or a question is open still."""
        self._connect(now)
        if self._contact is None or self._asked_at is not None:
            return False
        self._contact.send(wire.AskScene(first, most), wait=False)
        self._asked_at = now
        return True

    def tell(self, message: wire.Message) -> bool:
        """Give an order; False if there is nobody to give it to."""
        if self._contact is not None:
            self._contact.send(message, wait=False)
        return self._contact is not None

    def take(self) -> list[wire.Message]:
        """Give what the broker has said since.

        Raises:
            VersionMismatch: It speaks another protocol.
        """
        found: list[wire.Message] = []
        while self._contact is not None and (message := self._contact.hear(0.0)) is not None:
            match message:
                case wire.Refused(reason="version"):
                    raise VersionMismatch(wire.PROTOCOL, message.text)
                case wire.Refused(reason="greet-first"):
                    self._asked_at = None
                    self._contact.greet()
                    continue
                case wire.SceneIs():
                    self._asked_at = self._silent_since = None
            found.append(message)
        return found

    def trouble(self, now: float) -> str:
        """What is wrong with the broker, if anything is."""
        if self._silent_since is None:
            return ""
        since = f"for {now - self._silent_since:.0f} s"
        if self._contact is not None:
            return f"the broker (pid {self._pid}) has not answered {since}"
        if is_locked(find_places(os.environ)):
            return f"the broker is gone {since}; the next one is starting"
        return f"the broker is gone {since}; `grn start` starts one"

    def close(self) -> None:
        self._let_go()

    def _connect(self, now: float) -> None:
        """Speak to the broker that lives now; anew if the last connection is of no use."""
        address = find_address(find_places(os.environ))
        overdue = self._asked_at is not None and now - self._asked_at > AGAIN_S
        if overdue and self._silent_since is None:
            self._silent_since = self._asked_at
        if self._contact is not None and (
            address is None or address.pid != self._pid or overdue
        ):
            self._let_go()
        if address is None:
            self._silent_since = now if self._silent_since is None else self._silent_since
        elif self._contact is None:
            self._pid = address.pid
            self._contact = Contact(address.clients, self._session)

    def _let_go(self) -> None:
        if self._contact is not None:
            self._contact.close()
        self._contact, self._asked_at = None, None
