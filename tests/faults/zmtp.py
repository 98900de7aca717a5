"""Where messages begin and end in a stream between two sockets (ZMTP 3)."""

from typing import Final

GREETING_BYTES: Final = 64
MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4


class Stream:
    """What one side says; told of every piece in its order, it knows the whole messages."""

    def __init__(self) -> None:
        self._unfinished = bytearray()
        self._greeted = False
        # Whether both sides know each other: until then a peer must be quick.
        self.has_begun = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece; give the messages that end in it, each as the bytes it was."""
        self._unfinished += data
        if not self._greeted:
            if len(self._unfinished) < GREETING_BYTES:
                return []
            self._greeted = True
            del self._unfinished[:GREETING_BYTES]
        found: list[bytes] = []
        while (end := _end_of_unit(self._unfinished)) is not None:
            self.has_begun = True
            if not self._unfinished[0] & COMMAND:
                found.append(bytes(self._unfinished[:end]))
            del self._unfinished[:end]
        return found

    @property
    def between_messages(self) -> bool:
        return self._greeted and not self._unfinished


def _end_of_unit(data: bytes | bytearray) -> int | None:
    """Where the first command, or all frames of the first message end; None if not here."""
    at = 0
    while (body := _body(data, at)) is not None and body[1] <= len(data):
        if not data[at] & MORE:
            return body[1]
        at = body[1]
    return None


def _body(data: bytes | bytearray, at: int = 0) -> tuple[int, int] | None:
    """Where the body of the frame at this place begins and ends; None if that is not here."""
    if len(data) <= at:
        return None
    size_bytes = 8 if data[at] & LONG else 1
    begin = at + 1 + size_bytes
    if len(data) < begin:
        return None
    return begin, begin + int.from_bytes(data[at + 1 : begin], "big")
