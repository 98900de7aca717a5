"""The one file that outlives the broker: opened by one broker at a time, checked, migrated.

A file that is not sound, or not there though it was, is refused and left as it is: to begin
with an empty one would silently forget accepted jobs.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from grn_zmq.errors import StateDamaged, StateError, StateMissing, StateUnwritable
from grn_zmq.paths import check_private

from .examining import BUSY_S, Meta, examine, explained, text_of, write_meta
from .rows import BadRow
from .schema import Connection, migrate
from .statelock import StateLock

Connect = Callable[[Path], Connection]

# A log that one huge turn has swollen is cut to this.
LOG_BYTES: Final = 64 << 20
_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_mode = WAL",
    f"PRAGMA journal_size_limit = {LOG_BYTES}",
    "PRAGMA cache_size = -8192",
    # Else what is deleted is overwritten with zeros, page by page. The file is private.
    "PRAGMA secure_delete = FAST",
)


def prepare_directory(directory: Path) -> None:
    """Create the directory of the file, for this user alone.

    Raises:
        OSError: It cannot be made.
        UnsafeDirectory: Others may enter it.
    """
    for missing in reversed([directory, *directory.parents]):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)
    check_private(directory)


def open_state(
    path: Path, boot_id: str, lock: StateLock, connect: Connect
) -> tuple[Connection, Meta]:
    """Open the file, or make the first; its epoch is one more than ever before.

    The connection commits only when told. Nothing is written before all is found sound.

    Raises:
        StateMissing, StateDamaged, StateTooNew, StateUnwritable: It cannot be used.
    """
    with _explained(path):
        marker = path.parent / "instance"
        marked = _read_marker(marker)
        found = examine(path, marked, lock.noted(boot_id))
        if found is None and marked:
            raise StateMissing(path, marker)
        _touch(path)
        connection = connect(path)
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
            meta = _begin(connection, found, boot_id)
            if not marked:
                # No job is taken before the marker is safe, and no marker made before the
                # file is: one without the other is never our doing.
                write_safely(marker, f"{meta.instance}\n")
        except BaseException:
            connection.close()
            raise
        return connection, meta


def connect_sqlite(path: Path) -> Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = text_of
    return connection


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except StateError:
        raise
    except BadRow as error:
        raise StateDamaged(path, str(error)) from None
    except (sqlite3.Error, UnicodeError) as error:
        raise explained(path, error) from error
    except OSError as error:
        raise StateUnwritable(path, error.strerror or str(error)) from error


def _read_marker(marker: Path) -> str:
    try:
        text = marker.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    if len(text) != 32:
        raise StateDamaged(marker, "it is no marker of ours")
    return text


def _begin(connection: Connection, found: Meta | None, boot_id: str) -> Meta:
    """Migrate and begin the next epoch, in one transaction that is safe on the disk."""
    meta = found or Meta(uuid4().hex, 0, "", 0)
    meta.epoch += 1
    meta.commits += 1
    if meta.boot_id != boot_id:
        meta.boot_id = boot_id
        meta.boot += 1
    with transaction(connection):
        migrate(connection)
        write_meta(
            connection,
            instance=meta.instance,
            epoch=meta.epoch,
            boot_id=meta.boot_id,
            boot=meta.boot,
            tally=meta.tally,
        )
    return meta


@contextlib.contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(Exception):  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _touch(path: Path) -> None:
    """Make the file private from its first byte; its log takes its mode."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
    _sync(path.parent)


def write_safely(path: Path, text: str) -> None:
    """Write a small file so that it is there in whole or not at all, whatever happens."""
    draft = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(draft, flags, 0o600)
    try:
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(draft, path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
