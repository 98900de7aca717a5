"""How far each job process is with its train, where kill -9 of everybody leaves it readable.

One file per incarnation of a worker, one page per job process, which that process alone writes:
a store to memory before each call. It needs no way to the disk: after a power cut nothing of
what was running is believed to run.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from grn_zmq.traincalls import MARK_BYTES, mark_in

SUFFIX: Final = ".marks"
# More job processes than any worker has at once.
MOST_SLOTS: Final = 4096


class Marks:
    """The marks of one worker; made with its first train."""

    def __init__(self, directory: Path, incarnation: str) -> None:
        self._path = directory / f"{incarnation}{SUFFIX}"
        self._fd = -1
        self._slots: set[int] = set()

    def slot(self, number: int) -> int:
        """Give a descriptor of the file, in which this page is there to be mapped.

        Raises:
            OSError: There is no room for it.
        """
        if number >= MOST_SLOTS:
            raise OSError(f"there are only {MOST_SLOTS} pages of marks")
        if self._fd < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
        if number not in self._slots:
            # Written, not only made larger: who writes to a page that the disk has no room
            # for is killed.
            os.pwrite(self._fd, bytes(MARK_BYTES), number * MARK_BYTES)
            self._slots.add(number)
        return self._fd

    def read(self, number: int) -> tuple[int, int]:
        """Give the train that a page is about, and how many of it have begun."""
        return mark_in(os.pread(self.slot(number), MARK_BYTES, number * MARK_BYTES))

    def close(self) -> None:
        """Nothing runs any more: what is here means nothing to anybody."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


def read_marks(directory: Path, incarnation: str) -> dict[int, tuple[int, int]]:
    """Give what an earlier incarnation left: by slot the last train, and how many had begun."""
    try:
        data = (directory / f"{incarnation}{SUFFIX}").read_bytes()
    except OSError:
        return {}
    pages = [data[at : at + MARK_BYTES] for at in range(0, len(data), MARK_BYTES)]
    return {slot: mark_in(page) for slot, page in enumerate(pages)}
