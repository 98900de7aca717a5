"""Payloads too large for a message: files of this user alone, of which only the name travels.

A name is a token, `<shm|disk>-<session>-<random>`: in memory for attached jobs, on the disk of
the state directory for detached ones. The broker removes a file when its job, or the result of
it, is let go; what was left by the dead is swept at its start. What a living client has not
handed over yet is protected by that client's lock.

Those in memory are mostly names of files that their writer keeps for the next: `shelf.py`.
"""

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .copying import MAPPED_BYTES, Buffer
from .errors import DiskFull, UnsafeDirectory
from .paths import check_private, make_private, state_directory
from .requiring import require_token
from .shelf import shelf_in
from .units import format_bytes

SHARED_MEMORY: Final = Path("/dev/shm")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_COPY_BYTES: Final = 1 << 20
_LOCK: Final = ".lock"
_KEPT: Final = "kept-"


@dataclass(frozen=True, slots=True)
class Parcels:
    """The two directories of one user's parcels."""

    shm: Path
    disk: Path

    def write(self, buffers: Iterable[Buffer], session: str, where: str) -> str:
        """Write one parcel and give its token.

        Args:
            where: "shm" if it may be lost in a power cut, "disk" if it must not.

        Raises:
            DiskFull: There is no room for it; nothing of it is left.
        """
        with contextlib.closing(self.draft(session, where)) as draft:
            for buffer in buffers:
                draft.write(buffer)
            return draft.finish()

    def pack(self, pieces: Sequence[Buffer], size_bytes: int, session: str, where: str) -> str:
        """Write a large pickle and give its token; it may stand in memory that was used before.

        What is read may be longer than what was written: a pickle knows its end.

        Raises:
            DiskFull: There is no room for it; nothing of it is left.
        """
        name = _new_token("shm", session)
        shelf = shelf_in(self.shm, self.hold)
        if where == "shm" and shelf.write(pieces, size_bytes, name):
            return name
        return self.write(pieces, session, where)

    def draft(self, session: str, where: str) -> "Draft":
        """Begin a parcel that is written bit by bit; `finish` gives its token."""
        return Draft(self, session, where)

    def read(self, token: str) -> memoryview:
        """Give the bytes of a parcel, large ones uncopied; valid also after its removal.

        They can be changed, which changes them here only, and costs the pages that are.

        Raises:
            FileNotFoundError: It was let go.
        """
        return map_parcel(*open_parcel(self.path(token)))

    def size_bytes(self, token: str) -> int | None:
        """How large a parcel is; None if there is none."""
        try:
            return self.path(token).lstat().st_size
        except OSError:
            return None

    def remove(self, token: str) -> None:
        """Let a parcel go; one that is gone already is none the less gone."""
        with contextlib.suppress(OSError):
            self.path(token).unlink()

    def hold(self, session: str) -> int:
        """Protect the parcels of this process from sweeps while the descriptor is open."""
        make_private(self.disk)
        path = self.disk / f"{session}{_LOCK}"
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(fd).st_ino == path.lstat().st_ino:
                    return fd
            os.close(fd)  # a sweep removed it between the two steps

    def sweep(self, keep: Collection[str], sessions: Collection[str] = ()) -> int:
        """Remove what nobody can need any more, and say how many.

        Args:
            keep: Tokens of jobs and results that are still kept.
            sessions: Clients with jobs that have not ended: their results may be on the way.
        """
        alive: dict[str, bool] = {}
        removed = 0
        for path, session in self._all():
            if path.name in keep or session in sessions:
                continue
            if session not in alive:
                alive[session] = self._is_held(session)
            if not alive[session]:
                removed += _unlink(path)
        self.sweep_kept()
        with contextlib.suppress(OSError):  # not empty: somebody needs it
            self.shm.rmdir()
        return removed

    def remove_session(self, session: str, keep: Collection[str] = ()) -> int:
        """Remove what a client that is gone for good has left, and say how many."""
        if self._is_held(session):
            return 0  # it lives, and has jobs that it has not submitted yet
        self.sweep_kept()
        mine = [path for path, whose in self._all() if whose == session]
        return sum(_unlink(path) for path in mine if path.name not in keep)

    def sweep_kept(self) -> None:
        """Remove what processes that are dead have kept for later, and their locks."""
        alive: dict[str, bool] = {}
        for path in _listed(self.shm):
            if path.name.startswith(_KEPT):
                owner = path.name.split("-")[1]
                if owner not in alive:
                    alive[owner] = self._is_held(owner)
                if not alive[owner]:
                    _unlink(path)
        for path in list(self.disk.glob(f"*{_LOCK}")):
            self._is_held(path.name.removesuffix(_LOCK))

    def path(self, token: str) -> Path:
        """Where a parcel lies, if there is one."""
        require_token(token)
        return (self.shm if token.startswith("shm-") else self.disk) / token

    def _all(self) -> Iterator[tuple[Path, str]]:
        for directory in (self.shm, self.disk):
            for path in _listed(directory):
                with contextlib.suppress(ValueError):
                    require_token(path.name)
                    yield path, path.name.split("-")[1]

    def _is_held(self, session: str) -> bool:
        """Whether the client of a session lives; the lock of a dead one is removed."""
        path = self.disk / f"{session}{_LOCK}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


class Draft:
    """A parcel being written. Closed before it is finished, it leaves nothing behind."""

    def __init__(self, parcels: Parcels, session: str, where: str) -> None:
        self._parcels = parcels
        self._session = session
        self._durable = where == "disk"
        self._done = False
        self.size_bytes = 0
        self._fd = -1
        if self._durable or not self._open("shm"):
            self._open("disk")

    def write(self, data: Buffer) -> int:
        """Append; a parcel that memory cannot hold moves to the disk."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            try:
                written = os.write(self._fd, view[at:])
            except OSError as error:
                self._make_room(error)
                continue
            at += written
            self.size_bytes += written
        return len(view)

    def finish(self) -> str:
        """Make it last as long as its kind does, and give its token."""
        if self._durable:
            os.fsync(self._fd)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        self._done = True
        self.close()
        return self._path.name

    def close(self) -> None:
        """Let go of the file, and of what is in it unless it was finished."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if not self._done:
                self._path.unlink(missing_ok=True)

    def _open(self, where: str) -> bool:
        directory = self._parcels.shm if where == "shm" else self._parcels.disk
        if where == "shm" and not directory.parent.is_dir():
            return False  # no such memory here
        try:
            make_private(directory)
        except OSError:
            if where == "shm":
                return False  # somebody else took the name
            raise
        self._path = directory / _new_token(where, self._session)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            if where == "shm":
                return False
            raise self._no_room(error) from None
        return True

    def _make_room(self, error: OSError) -> None:
        """Go on where there is room, or say how much was missing."""
        if error.errno not in _NO_ROOM or self._path.name.startswith("disk-"):
            raise self._no_room(error) from None
        full, of_full, self._fd = self._path, self._fd, -1
        try:
            self._open("disk")
            os.lseek(of_full, 0, os.SEEK_SET)
            self.size_bytes = 0
            while piece := os.read(of_full, _COPY_BYTES):
                self.write(piece)
        finally:
            os.close(of_full)
            full.unlink(missing_ok=True)

    def _no_room(self, error: OSError) -> Exception:
        if error.errno not in _NO_ROOM:
            return error
        free = 0
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._path.parent).free + self.size_bytes
        return DiskFull(
            "disk-full",
            f"no room for a payload of more than {format_bytes(self.size_bytes)} in "
            f"{self._path.parent}, where {format_bytes(free)} were free ({error.strerror}). "
            f"Make room there, or write a file elsewhere and pass its path",
        )


def open_parcel(path: Path) -> tuple[int, int]:
    """Open a parcel to read it, and give its size. Its writer lets it be while it is locked.

    Raises:
        FileNotFoundError: It was let go.
    """
    check_private(path.parent)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # A mapping has this lock, too, and lasts longer than the descriptor.
        fcntl.flock(fd, fcntl.LOCK_SH)
        facts, named = os.fstat(fd), path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise UnsafeDirectory(f"{path} is not a file of yours: remove it")
        if facts.st_ino != named.st_ino:
            raise FileNotFoundError(path)
    except BaseException:
        os.close(fd)
        raise
    return fd, facts.st_size


def map_parcel(fd: int, size_bytes: int) -> memoryview:
    """Give the bytes of an open parcel, small ones copied, and close its descriptor."""
    try:
        if size_bytes >= MAPPED_BYTES:
            with contextlib.suppress(OSError):  # too many descriptors, or mappings
                return memoryview(mmap.mmap(fd, size_bytes, access=mmap.ACCESS_COPY))
        room = memoryview(bytearray(size_bytes))
        at = 0
        while at < size_bytes and (step := os.preadv(fd, [room[at:]], at)):
            at += step
        return room[:at]
    finally:
        os.close(fd)


def find_parcels(environ: Mapping[str, str]) -> Parcels:
    """Give the places of this user's parcels; nothing is created.

    They hang on the state directory, so that two brokers kept apart do not sweep each other's.
    """
    state = state_directory(environ)
    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:8]
    return Parcels(SHARED_MEMORY / f"grn-{os.geteuid()}-{name}", state / "parcels")


def _new_token(where: str, session: str) -> str:
    token = f"{where}-{session}-{uuid.uuid4().hex}"
    require_token(token)
    return token


def _listed(directory: Path) -> list[Path]:
    try:
        check_private(directory)
        return list(directory.iterdir())
    except OSError:
        return []  # there is none yet, or it is not ours to clean


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
