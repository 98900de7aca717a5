"""Is a broker there, and where? The locks say whether, the address file says where.

The address is written only once the sockets are bound, so whoever reads it can connect.
"""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Final

from .errors import BrokerRunning
from .paths import Places, check_private

# Whoever looks at the lock holds it for a moment; only a broker holds it for so long.
TAKE_S: Final = 0.5
TAKE_AGAIN_S: Final = 0.005
LOOK_AGAIN_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens, and whom to signal to stop it with all it started.

    The pids are as the broker knows them. Where it is not `near`, but in another pid namespace
    such as that of a container, they tell one broker from the next, and nothing else.
    """

    pid: int
    supervisor_pid: int
    clients: str
    workers: str
    near: bool = True


class BrokerLock:
    """Held for the life of the broker; the kernel lets go of it whatever happens."""

    def __init__(self, places: Places) -> None:
        """Take the lock, or say who has it.

        Raises:
            BrokerRunning: Another broker of this user is alive.
        """
        self._places = places
        self._file: IO[str] = open(places.lock, "a+", encoding="utf-8")  # noqa: SIM115
        os.chmod(places.lock, 0o600)
        if not _take(self._file):
            holder = _pid_in(self._file)
            self._file.close()
            raise BrokerRunning(holder)
        places.address.unlink(missing_ok=True)  # what a killed broker left
        self._sign()

    def _sign(self) -> None:
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    @property
    def is_whole(self) -> bool:
        """Whether lock and address are still where clients look for them."""
        return self._is_in_place and self._places.address.exists()

    @property
    def _is_in_place(self) -> bool:
        try:
            return os.stat(self._places.lock).st_ino == os.fstat(self._file.fileno()).st_ino
        except OSError:
            return False

    def take_again(self) -> None:
        """Lock a new file in the place of one that was removed; one that is there stays."""
        if self._is_in_place:
            return
        before = self._file
        self._file = open(self._places.lock, "a+", encoding="utf-8")  # noqa: SIM115
        os.chmod(self._places.lock, 0o600)
        if not _take(self._file):
            raise BrokerRunning(_pid_in(self._file))
        self._sign()
        before.close()

    def publish(self, address: Address) -> None:
        """Tell clients and workers where to connect."""
        facts = asdict(address)
        del facts["near"]  # whoever reads it finds out
        # In a file of its own: earlier versions read no more than the address always had.
        _write(self._places.namespace, pid_namespace())
        _write(self._places.address, json.dumps(facts))

    def withdraw(self) -> None:
        """Take the address back: nobody new shall connect."""
        self._places.address.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go."""
        self._file.close()


class SupervisorLock:
    """Held for the life of `grn start`: as long as it is, a broker that died comes back."""

    def __init__(self, places: Places) -> None:
        """Take the lock, or say who has it.

        Raises:
            BrokerRunning: Another `grn start` of this user is alive.
        """
        self._file: IO[str] = open(places.supervisor_lock, "a+", encoding="utf-8")  # noqa: SIM115
        os.chmod(places.supervisor_lock, 0o600)
        if not _take(self._file):
            holder = lock_holder(places) or _pid_in(self._file)
            self._file.close()
            raise BrokerRunning(holder)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def close(self) -> None:
        """Let go."""
        self._file.close()


def _write(path: Path, text: str) -> None:
    """Write a file of this user alone that is there whole, or not at all."""
    draft = path.with_suffix(".draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.replace(draft, path)


def _take(file: IO[str]) -> bool:
    deadline = time.monotonic() + TAKE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(TAKE_AGAIN_S)
        else:
            return True


def _pid_in(file: IO[str]) -> int:
    file.seek(0)
    text = file.read().strip()
    return int(text) if text.isdecimal() else 0


def find_address(places: Places) -> Address | None:
    """Give the address of the living broker, or None if none lives or it is not ready.

    Raises:
        UnsafeDirectory: Others could have written the address.
    """
    try:
        check_private(places.directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        facts = json.loads(places.address.read_text())
        address = Address(**facts)
    except (OSError, ValueError, TypeError):
        return None
    # One that a killed broker has left does not count, also while the next one starts.
    return _from_here(address, places) if lock_holder(places) == address.pid else None


def _from_here(address: Address, places: Places) -> Address:
    """Say it as it is seen from here: a container has its own pids and its own paths."""
    if not _is_there(address.clients) and places.clients_socket.exists():
        address = replace(
            address,
            clients=f"ipc://{places.clients_socket}",
            workers=f"ipc://{places.workers_socket}",
        )
    return replace(address, near=shares_pids(places))


def _is_there(address: str) -> bool:
    return os.path.exists(address.removeprefix("ipc://"))


def pid_namespace() -> str:
    """Name the pid namespace of this process; empty where the kernel does not say."""
    with contextlib.suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return ""


def shares_pids(places: Places) -> bool:
    """Whether the pids that the broker there knows are those of this process, too.

    Of a broker that does not say, all that were before this was asked, it is assumed.
    """
    with contextlib.suppress(OSError):
        theirs, ours = places.namespace.read_text(), pid_namespace()
        return not theirs or not ours or theirs == ours
    return True


def wait_for_address(places: Places, seconds: float) -> Address | None:
    """Give the address; wait for it where a broker is starting, or is started again."""
    deadline = time.monotonic() + seconds
    while (address := find_address(places)) is None:
        if not is_locked(places) or time.monotonic() > deadline:
            return None
        time.sleep(LOOK_AGAIN_S)
    return address


def is_locked(places: Places) -> bool:
    """Whether a broker lives, ready or still starting, or one that died is to come back."""
    return lock_holder(places) is not None or supervisor(places) is not None


def lock_holder(places: Places) -> int | None:
    """The pid of the broker that lives, 0 if it has not written it yet, None if none does."""
    return _holder(places.lock)


def supervisor(places: Places) -> int | None:
    """The pid of the `grn start` that lives, 0 if it has just begun, None if none does."""
    return _holder(places.supervisor_lock)


def _holder(lock: Path) -> int | None:
    try:
        file = open(lock, encoding="utf-8")  # noqa: SIM115
    except OSError:
        return None
    with file:
        try:
            # Shared, so that two who ask at once do not take each other for a broker.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(file)
        return None
