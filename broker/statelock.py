"""The lock beside the state file, and the note in it of how far that file has come.

SQLite drops what stands behind the first broken byte of its log without a word. The note is
written after each commit, at the price of one small write: as long as the machine runs, a
file that knows less than its note has lost something.
"""

import fcntl
import os
from pathlib import Path
from typing import Final
from zlib import crc32

_MOST_BYTES: Final = 256


class StateLock:
    """Held while the file is open: brokers of other runtime directories share the same one."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            BlockingIOError: Another broker has it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise

    def note(self, boot_id: str, commits: int) -> None:
        """Say how many commits there are. Not flushed: it counts in this boot only."""
        text = b"%s %d" % (boot_id.encode(), commits)
        os.pwrite(self._fd, b"%s %d\n" % (text, crc32(text)), 0)

    def noted(self, boot_id: str) -> int:
        """Give how many commits there were, or 0 if that was not noted in this boot."""
        # Counts only grow within a boot, but a shorter boot id may leave a rest behind.
        line = os.pread(self._fd, _MOST_BYTES, 0).partition(b"\n")[0]
        text, _, check = line.rpartition(b" ")
        if not check.isdigit() or int(check) != crc32(text):
            return 0
        noted_in, _, commits = text.rpartition(b" ")
        return int(commits) if noted_in == boot_id.encode() else 0

    def close(self) -> None:
        os.close(self._fd)
