"""What jobs have printed, kept on disk: where it is, in which form, and how it is read.

    <job id>.log      the bytes of both streams, as a terminal would have shown them
    <job id>.streams  which of them are of which stream
    <job id>.log.1    what was printed before that, once the first log had become too large
    <job id>.streams.1

A line of `.streams` is a word and a number. `stderr 120` says that the log is standard error
from its byte 120 on; up to the first such line, or without the file, it is standard output.
`before 8388712` says how many bytes had been printed when this log began. A line is written
before the bytes it speaks of.

A log is put aside by renaming it first and its `.streams` second; the next one begins after
both. So while there is no `.log`, a `.streams` belongs to `.log.1`.
"""

import contextlib
import os
import re
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .records import STREAMS

# A log that has passed this is put aside. So a job keeps twice as much at most: its last.
LOG_BYTES: Final = 8 << 20
BEFORE: Final = "before"
# How much is read at once, of a log and of what says whose its bytes are.
READ_BYTES: Final = 1 << 18

_LINE: Final = re.compile(rb"([a-z]{1,16}) ([0-9]{1,20})")
_NAME: Final = re.compile(r"([0-9a-f]{32})\.(?:log|streams)(?:\.1)?", re.ASCII)

# A stream and what was printed to it.
Printed = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one job."""

    directory: Path
    job_id: str

    @property
    def log(self) -> Path:
        return self.directory / f"{self.job_id}.log"

    @property
    def streams(self) -> Path:
        return self.directory / f"{self.job_id}.streams"

    @property
    def old_log(self) -> Path:
        return self.directory / f"{self.job_id}.log.1"

    @property
    def old_streams(self) -> Path:
        return self.directory / f"{self.job_id}.streams.1"

    def put_aside(self) -> None:
        """Make room for the next log; what was put aside before goes.

        Raises:
            OSError: It could not be; calling it again goes on where this ended.
        """
        for path, aside in ((self.log, self.old_log), (self.streams, self.old_streams)):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, aside)

    def printed_before(self) -> int:
        """How many bytes had been printed by the end of the log that was put aside."""
        try:
            size = self.old_log.stat().st_size
        except FileNotFoundError:
            return 0
        first = parse(_first_line(self.old_streams))
        return size + (first[1] if first and first[0] == BEFORE else 0)


def line(word: str, number: int) -> bytes:
    """A line of `.streams`."""
    return f"{word} {number}\n".encode()


def parse(text: bytes) -> tuple[str, int] | None:
    """The word and the number of such a line; None if it is none."""
    match = _LINE.fullmatch(text)
    return (match[1].decode(), int(match[2])) if match else None


def remove(directory: Path, job_id: str) -> None:
    """Delete what a job has printed; what cannot be deleted is left to `sweep`."""
    if os.path.exists(f"{directory}/{job_id}.log"):  # most jobs print nothing
        _remove_all(directory, job_id)


def _remove_all(directory: Path, job_id: str) -> None:
    files = LogFiles(directory, job_id)
    for path in (files.log, files.streams, files.old_log, files.old_streams):
        with contextlib.suppress(OSError):
            path.unlink()


def sweep(directory: Path, known_ids: Container[str]) -> int:
    """Delete the logs of all jobs but these; files that are no logs stay.

    Returns:
        Of how many jobs there were some.
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    found = {match[1] for name in names if (match := _NAME.fullmatch(name))}
    forgotten = [job_id for job_id in found if job_id not in known_ids]
    for job_id in forgotten:
        _remove_all(directory, job_id)
    return len(forgotten)


class LogReader:
    """Reads what a job has printed, once, from the oldest byte that is kept to the newest.

    The job may go on printing meanwhile, or may not have begun. Without any log there is
    nothing to read; that is no error. Use it in a `with` block, or close it.
    """

    def __init__(self, directory: Path, job_id: str) -> None:
        self._files = LogFiles(directory, job_id)
        self._log: _OpenLog | None = None
        self._passed_bytes = 0

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        if self._log is not None:
            self._log.close()
            self._log = None

    @property
    def missed_bytes(self) -> int:
        """How much was printed, before what was read last, and is kept no more."""
        return 0 if self._log is None else max(0, self._log.printed - self._passed_bytes)

    def read(self, stream: str | None = None) -> Iterator[Printed]:
        """Give all that is there and was not given yet, piece by piece.

        Args:
            stream: `stdout` or `stderr` for what was printed there alone.
        """
        while pieces := self.more(stream):
            yield from pieces

    def tail(self, lines: int, stream: str | None = None) -> list[Printed]:
        """Give the last lines of what is there; `more` goes on behind them."""
        kept: deque[tuple[Printed, int]] = deque()
        ends = 0
        for piece in self.read(stream):
            kept.append((piece, piece[1].count(b"\n")))
            ends += kept[-1][1]
            while ends - kept[0][1] > lines:
                ends -= kept.popleft()[1]
        return _last_lines([piece for piece, _ in kept], lines)

    def more(self, stream: str | None = None) -> list[Printed]:
        """Give a part of what was not given yet; nothing if there is no more at present."""
        while True:
            # Only what is read after it was put aside is read to its end.
            following = self._following()
            pieces = self._log.read() if self._log else []
            self._passed_bytes += sum(len(data) for _, data in pieces)
            wanted = [piece for piece in pieces if stream in (None, piece[0])]
            if wanted or (not pieces and following is None):
                return wanted
            if not pieces and following is not None:
                self._open(*following)

    def _following(self) -> tuple[Path, int] | None:
        """The log that comes after the open one, and its inode; None if there is none."""
        inode, old_inode = _inodes(self._files)
        mine = self._log.inode if self._log else None
        if mine is not None and mine == inode:
            return None
        if old_inode is not None and mine != old_inode:
            return self._files.old_log, old_inode
        return None if inode is None else (self._files.log, inode)

    def _open(self, path: Path, inode: int) -> None:
        """Go on with this log; if it is another by now, the next look will find it."""
        try:
            found = _OpenLog(self._files, path)
        except FileNotFoundError:
            return
        if found.inode != inode:
            found.close()
            return
        self.close()
        self._log = found


class _OpenLog:
    """One log, wherever it is renamed to."""

    def __init__(self, files: LogFiles, path: Path) -> None:
        self._files = files
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self._fd).st_ino
        self._position = 0
        self._before = 0
        self._stream = "stdout"
        self._streams_fd = self._open_streams()
        self._streams_position = 0
        self._changes: deque[tuple[str, int]] = deque()

    @property
    def printed(self) -> int:
        """How much was printed up to where it was read."""
        return self._before + self._position

    def close(self) -> None:
        os.close(self._fd)
        if self._streams_fd is not None:
            os.close(self._streams_fd)

    def read(self) -> list[Printed]:
        """Give the next bytes, divided by stream; nothing at the end."""
        data = os.pread(self._fd, READ_BYTES, self._position)
        if not data:
            return []
        start, end = self._position, self._position + len(data)
        self._read_changes(end)
        pieces: list[Printed] = []
        begun = start
        while self._changes and self._changes[0][1] < end:
            stream, offset = self._changes.popleft()
            if offset > begun:
                pieces.append((self._stream, data[begun - start : offset - start]))
                begun = offset
            self._stream = stream
        pieces.append((self._stream, data[begun - start :]))
        self._position = end
        return pieces

    def _read_changes(self, end: int) -> None:
        """Read of which streams the bytes before this one are.

        It comes after reading those: by then all that speaks of them is written.
        """
        if self._streams_fd is None:
            self._streams_fd = self._open_streams()
        while self._streams_fd is not None and (
            not self._changes or self._changes[-1][1] < end
        ):
            text = os.pread(self._streams_fd, READ_BYTES, self._streams_position)
            whole = text[: text.rfind(b"\n") + 1]
            if not whole:
                return
            self._streams_position += len(whole)
            for found in map(parse, whole.splitlines()):
                if found and found[0] == BEFORE:
                    self._before = found[1]
                elif found and found[0] in STREAMS:
                    self._changes.append(found)

    def _open_streams(self) -> int | None:
        """Open what belongs to this log; None if there is nothing yet."""
        while True:
            inodes = _inodes(self._files)
            if self.inode not in inodes:
                return None
            paths = [self._files.streams]
            if self.inode != inodes[0]:
                # Halfway put aside, if there is no other log yet.
                paths = [*(paths if inodes[0] is None else []), self._files.old_streams]
            fd = next((fd for fd in map(_open_if_there, paths) if fd is not None), None)
            if _inodes(self._files) == inodes:
                return fd
            if fd is not None:
                os.close(fd)


def _inodes(files: LogFiles) -> tuple[int | None, int | None]:
    """What tells the log, and the one that was put aside, from all others."""
    return _inode(files.log), _inode(files.old_log)


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _open_if_there(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _first_line(path: Path) -> bytes:
    fd = _open_if_there(path)
    if fd is None:
        return b""
    try:
        return os.read(fd, 64).partition(b"\n")[0]
    finally:
        os.close(fd)


def _last_lines(pieces: list[Printed], lines: int) -> list[Printed]:
    """Cut pieces so that the last lines are left; a last one without its end counts."""
    if not pieces or lines <= 0:
        return []
    ends = lines + pieces[-1][1].endswith(b"\n")
    for at in range(len(pieces) - 1, -1, -1):
        stream, data = pieces[at]
        if (count := data.count(b"\n")) < ends:
            ends -= count
            continue
        cut = len(data)
        for _ in range(ends):
            cut = data.rfind(b"\n", 0, cut)
        return [(stream, data[cut + 1 :]), *pieces[at + 1 :]]
    return pieces
