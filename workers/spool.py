"""The spool of one device: what its worker must still know after a crash.

One directory per device, one worker at a time in it (`lock`), one log at a time, named by the
incarnation that writes it. Nothing here decides: it writes what the core asks for, and gives
back what earlier incarnations left.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from loguru import logger

from grn_zmq.failpoints import failpoint
from grn_zmq.paths import make_private
from grn_zmq.records import Result

from . import spoollog
from .marks import SUFFIX, Marks, read_marks
from .spoollog import (
    Attempt,
    DropRecord,
    DropsRecord,
    Finish,
    FinishRecord,
    Left,
    Record,
    ReturnedRecord,
    Start,
    StartRecord,
    TrainRecord,
)

# A log of which less than half is still needed is written anew from this size on.
ROTATE_BYTES: Final = 8 << 20

_INCARNATION: Final = re.compile(r"([0-9a-f]{32})-\d+\.log", re.ASCII)
_UNUSUAL: Final = re.compile(r"[^\w.-]", re.ASCII)


def spool_directory(state: Path, device: str) -> Path:
    """Where the worker of a device keeps its spool."""
    return state / "spool" / _UNUSUAL.sub("_", device)


class Spool:
    """The log of one worker, and what there was before it."""

    def __init__(self, directory: Path, incarnation: str) -> None:
        """Take the directory, as soon as no other worker has it, and read what is there.

        Raises:
            UnsafeDirectory: It cannot be made, or others may enter it.
        """
        make_private(directory)
        self._directory = directory
        self.incarnation = incarnation
        self._lock = _lock(directory / "lock")
        self._number = 0
        self._fd = -1
        self._size = 0
        self._rotate_at = ROTATE_BYTES
        _remove(directory.glob("*.draft"))
        _remove(directory.glob("late-*"))
        self._old = [path for path in directory.iterdir() if _INCARNATION.fullmatch(path.name)]
        self.earlier = {path.name[:32] for path in self._old}
        self.marks = Marks(directory, incarnation)
        self.left = Left()
        self._starts: dict[Attempt, Start] = {}
        self._results: dict[Attempt, Finish] = {}
        self.why = ""

    @property
    def writable(self) -> bool:
        """Whether the last write succeeded; if not, `why` says what went wrong."""
        return not self.why

    def begin(self) -> None:
        """Carry over what is still needed to a log of our own, and remove the old ones.

        Only once nothing of the earlier incarnations lives: their names go with their logs,
        and how far their trains came is known only then.
        """
        self.left = spoollog.outstanding(_read_all(self._old))
        self._starts |= self.left.interrupted
        self._results |= self.left.results
        self._old += self._directory.glob(f"*{SUFFIX}")
        self._renew()

    def write(self, records: Sequence[Record]) -> bool:
        """Write these at once, all or none; what is to survive a power cut, to the disk itself.

        Results that could not be written are written with the next that can be.

        Returns:
            Whether they are there now.
        """
        for record in records:
            self._note(record)
        written = self._can_mark(records)
        written = written and (self._renew() if self._fd < 0 else self._append(records))
        if not written:
            for record in records:
                if isinstance(record, StartRecord | TrainRecord):
                    for attempt in spoollog.attempts_in(record):
                        self._starts.pop(attempt, None)
        elif self._size > self._rotate_at:
            self._rotate()
        return written

    def _can_mark(self, records: Sequence[Record]) -> bool:
        """Have a page at hand for each train, on which it is told how far that came."""
        try:
            for record in records:
                if isinstance(record, TrainRecord):
                    self.marks.slot(record.slot)
        except OSError as error:
            return self._failed(error)
        return True

    def retry(self) -> bool:
        """See whether it can be written again, with all that could not be before."""
        return self._renew()

    def set_aside(self, result: Result) -> None:
        """Keep a result that the broker knows nothing of where somebody can look at it."""
        aside = self._directory / "quarantine"
        try:
            make_private(aside)
            data = spoollog.encode(FinishRecord(True, result))
            _write_file(aside / f"{result.job_id}-{result.attempt}.result", data)
        except OSError as error:
            logger.bind(facts={"why": str(error)}).error("cannot set a result aside")

    def late_file(self, job_id: str, attempt: int) -> Path:
        """Where a job process leaves its answer if its body closed our socket."""
        return Path(f"{self.late_files}{job_id}-{attempt}")

    @property
    def late_files(self) -> str:
        """The beginning of the names of all these."""
        return str(self._directory / "late-")

    def close(self) -> None:
        """Let the next worker in."""
        self._let_go()
        self.marks.close()
        os.close(self._lock)

    def _note(self, record: Record) -> None:
        attempts = spoollog.attempts_in(record)
        match record:
            case StartRecord() | TrainRecord():
                self._starts |= dict.fromkeys(attempts, record)
                return
            case FinishRecord() | ReturnedRecord():
                self._results |= dict.fromkeys(attempts, record)
            case DropRecord() | DropsRecord():
                for attempt in attempts:
                    self._results.pop(attempt, None)
        for attempt in attempts:
            self._starts.pop(attempt, None)

    def _needed(self) -> list[Record]:
        """All that is to be answered for; of what is in columns, only those rows."""
        starts = {id(one): one for one in self._starts.values()}
        results = {id(one): one for one in self._results.values()}
        return [
            *(spoollog.part_of(one, self._starts) for one in starts.values()),
            *(spoollog.part_of(one, self._results) for one in results.values()),
        ]

    def _append(self, records: Iterable[Record]) -> bool:
        records = list(records)
        data = b"".join(map(spoollog.encode, records))
        try:
            failpoint("worker.spool-write")
            _write_all(self._fd, data)
            if any(map(spoollog.is_durable, records)):
                os.fdatasync(self._fd)
        except OSError as error:
            # Behind half a record nothing could be read, and a failed sync leaves unknown
            # what is on the disk: this log ends here, and the next attempt begins another.
            self._cut()
            return self._failed(error)
        self._size += len(data)
        return True

    def _cut(self) -> None:
        """Take back what may have been written of the last batch."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._size)
        self._old.append(self._path)
        self._let_go()

    def _rotate(self) -> None:
        if sum(len(spoollog.encode(one)) for one in self._needed()) * 2 < self._size:
            self._renew()
        else:
            self._rotate_at = 2 * self._size  # to look at all of it again pays only then

    def _renew(self) -> bool:
        """Begin a new log with all that is needed, then remove those before it."""
        if self._fd >= 0:
            self._old.append(self._path)
            self._let_go()
        self._number += 1
        data = b"".join(map(spoollog.encode, self._needed()))
        try:
            failpoint("worker.spool-write")
            _write_file(self._path, data)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return self._failed(error)
        self._size = len(data)
        self._rotate_at = max(ROTATE_BYTES, 2 * self._size)
        _remove(self._old)
        self._old = []
        if self.why:
            logger.info("the spool can be written again")
        self.why = ""
        return True

    def _failed(self, error: OSError) -> bool:
        why = error.strerror or str(error)
        if not self.why:
            facts = {"why": why, "directory": str(self._directory)}
            logger.bind(facts=facts).error("cannot write the spool: no new jobs are taken")
        self.why = why
        return False

    @property
    def _path(self) -> Path:
        return self._directory / f"{self.incarnation}-{self._number}.log"

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.info("another worker has this device; waiting for its end")
        fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _read_all(paths: Iterable[Path]) -> Iterable[Record]:
    for path in paths:
        marks = read_marks(path.parent, path.name[:32])
        for record in spoollog.decode(path.read_bytes()):
            yield spoollog.begun_part(record, marks)


def _write_all(fd: int, data: bytes) -> None:
    """Write at once; where only a part is taken, the next write says why."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write_file(path: Path, data: bytes) -> None:
    """Write a file that is there whole, or not at all, whatever happens."""
    draft = path.with_suffix(".draft")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(draft, flags, 0o600)
    try:
        _write_all(fd, data)
        os.fdatasync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    finally:
        os.close(fd)
    os.replace(draft, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
