"""The journal: what must outlive the broker, committed before anybody is told of it.

One turn of the broker's loop is one transaction. Whatever goes wrong, except for a disk that
is full, the broker ends at once and starts anew from what is on the disk: that alone counts.
"""

import contextlib
import errno
import gc
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from loguru import logger

from grn_zmq.errors import StateDamaged, StateInUse, StateUnwritable, UnsafeDirectory
from grn_zmq.failpoints import failpoint

from .cellrows import CellTable
from .changes import Batch, Kept, KeptJob
from .disk import Disk
from .examining import Meta, explained, read_meta
from .loading import Numbers, Times, jobs_kept, numbers_kept
from .rows import BadRow
from .schema import Connection
from .statefile import Connect, connect_sqlite, open_state, prepare_directory, transaction
from .statelock import StateLock
from .surroundings import Surroundings
from .trainloading import TrainTable
from .writing import Writer


class JournalFailed(Exception):
    """What is on the disk may no longer be what is in memory: the broker must end."""


class Journal:
    """The state file of a running broker. Used by one thread."""

    def __init__(
        self,
        path: Path,
        boot_id: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        connect: Connect | None = None,
    ) -> None:
        """Take the lock, check and migrate the file or make the first, begin a new epoch.

        Args:
            boot_id: Tells this run of the machine from any other; times are comparable
                within one.
            connect: What to use instead of SQLite as Python has it.

        Raises:
            StateInUse: Another broker has it.
            StateMissing, StateDamaged, StateTooNew, StateUnwritable: It cannot be used.
            UnsafeDirectory: Others may enter the directory of the file.
        """
        self._path = path
        self._monotonic = monotonic
        self._wall = wall
        self._lock = _lock(path)
        self._disk = Disk(path.parent, monotonic)
        try:
            self._connection, self._meta = self._open(boot_id, connect or connect_sqlite)
        except BaseException:
            self._lock.close()
            raise
        self._lock.note(boot_id, self._meta.commits)
        self._disk.look()
        self._durable = True
        self._numbers: Numbers | None = None
        self._surroundings = Surroundings(self._connection, self._meta.boot)
        self._cells = CellTable(self._connection, path)
        self._trains = TrainTable(self._connection)

    def _open(self, boot_id: str, connect: Connect) -> tuple[Connection, Meta]:
        try:
            return open_state(self._path, boot_id, self._lock, connect)
        except StateUnwritable:
            if not self._disk.give_up():
                raise
            return open_state(self._path, boot_id, self._lock, connect)

    @property
    def instance(self) -> str:
        """Tells this state file from any other."""
        return self._meta.instance

    @property
    def epoch(self) -> int:
        """How often a broker has started from this file."""
        return self._meta.epoch

    @property
    def accepting(self) -> bool:
        """Whether the disk has room for more jobs."""
        return self._disk.roomy

    def tick(self) -> None:
        """Look at the disk; once a second is enough."""
        self._disk.look()

    def born(self, session: str) -> int:
        """Give when the process of a session was born (`process_born`), 0 if unknown."""
        return self._surroundings.born.get(session, 0)

    def load(self) -> Kept:
        """Give all that was kept; `jobs` is read while it is gone through, once.

        Raises:
            StateDamaged: Something is not as it was written, also while going through `jobs`.
        """
        times = Times(self._monotonic(), self._wall(), self._meta.boot)
        with self._believing():
            return Kept(
                epoch=self._meta.epoch,
                last_number=self._meta.last_number,
                jobs=self._jobs(times),
                sessions=self._surroundings.sessions(),
                blobs=self._surroundings.blobs(),
                cells=list(self._cells.load()),
                deaths=self._surroundings.deaths(times),
                paused=self._meta.paused,
                queues=self._meta.queues,
            )

    def _jobs(self, times: Times) -> Iterator[KeptJob]:
        numbers = Numbers()
        with self._believing(), _no_collecting():
            yield from jobs_kept(self._connection, times, self._meta, numbers)
        self._numbers = numbers

    @contextlib.contextmanager
    def _believing(self) -> Iterator[None]:
        """Say in one way what is wrong with the file."""
        try:
            yield
        except BadRow as error:
            raise StateDamaged(self._path, str(error)) from None
        except (sqlite3.Error, UnicodeError) as error:
            raise explained(self._path, error) from error

    def payload(self, job_id: str) -> bytes:
        """Give the payload of a job that lives, or that can be run once more.

        Raises:
            KeyError: There is no such job, or its payload was let go.
            StateDamaged: It is not what was written.
        """
        known = self._known()
        if job_id in known.members.numbers:
            with self._believing():
                return self._trains.payload(known.members, job_id)
        number = known.live.get(job_id)
        if number is None:
            number = known.ended[job_id]
            query = "SELECT 1 FROM payloads WHERE number = ?"
            if self._connection.execute(query, (number,)).fetchone() is None:
                raise KeyError(job_id)
        return self._bytes("jobs", "payloads", number)

    def result(self, job_id: str) -> bytes:
        """Give the payload of an outcome; empty if there is none, or it was let go.

        Raises:
            KeyError: There is no such job, or it has not ended.
            StateDamaged: It is not what was written.
        """
        known = self._known()
        if job_id in known.members.numbers:
            with self._believing():
                return self._trains.result(known.members, job_id)
        return self._bytes("outcomes", "results", known.ended[job_id])

    def _bytes(self, owners: str, table: str, number: int) -> bytes:
        query = f"""
            SELECT p.data, o.payload_bytes, o.payload_crc
            FROM {owners} o LEFT JOIN {table} p ON p.number = o.number WHERE o.number = ?
        """
        with self._believing():
            row = self._connection.execute(query, (number,)).fetchone()
            data, length, crc = row or (None, 1, 0)
            if data is None and (not length or owners == "outcomes"):
                return b""
            if data is None or len(data) != length or crc32(data) != crc:
                raise BadRow(f"the bytes of job {number} do not match their checksum")
            return bytes(data)

    def _known(self) -> Numbers:
        if self._numbers is None:
            self._numbers = numbers_kept(self._connection)
        return self._numbers

    def write(self, batch: Batch) -> None:
        """Commit all of it, or nothing; a durable batch then outlives a power cut too.

        On a full disk the ballast is given up for it.

        Raises:
            JournalFailed: It is not known what is on the disk. End, and start anew.
        """
        if batch.empty:
            return
        try:
            try:
                self._commit(batch)
            except (OSError, sqlite3.Error) as error:
                if not (_is_full(error) and self._disk.give_up()):
                    raise
                logger.bind(facts={"why": str(error)}).error(
                    "the disk is full: ballast is gone"
                )
                # Both have changed with what is not on the disk now.
                self._meta, self._numbers = read_meta(self._connection), None
                self._trains = TrainTable(self._connection)
                self._commit(batch)
        except Exception as error:
            raise JournalFailed(f"{type(error).__name__}: {error}") from error

    def _commit(self, batch: Batch) -> None:
        failpoint("journal.begin")
        if batch.durable != self._durable:
            level = "FULL" if batch.durable else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._durable = batch.durable
        writer = Writer(self._connection, self._meta, self._known())
        wall = self._wall()
        to_wall_s = wall - self._monotonic()
        with transaction(self._connection):
            writer.write(batch, to_wall_s)
            self._surroundings.write(batch, to_wall_s)
            for job_type in batch.forgotten_types:
                self._cells.forget(job_type)
            self._cells.write(batch.cells, wall)
            failpoint("journal.before-commit")
        self._lock.note(self._meta.boot_id, self._meta.commits)
        failpoint("journal.after-commit")

    def close(self) -> None:
        """Let go of the file; all that was written is in it."""
        with contextlib.suppress(Exception):
            self._connection.close()
        self._disk.close()
        self._lock.close()


def _lock(path: Path) -> StateLock:
    try:
        prepare_directory(path.parent)
        return StateLock(path.with_suffix(".lock"))
    except UnsafeDirectory:  # which is an OSError too
        raise
    except BlockingIOError:
        raise StateInUse(path) from None
    except OSError as error:
        raise StateUnwritable(path, error.strerror or str(error)) from error


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Look for no garbage: all that is made of the rows stays, and there are very many."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
