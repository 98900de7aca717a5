"""Where a user's broker is found: a private directory with its sockets, lock and address."""

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UnsafeDirectory

# What fits into the kernel's address of a unix socket.
MAX_SOCKET_PATH = 107


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one broker, all below one directory that only its user may enter."""

    directory: Path

    @property
    def lock(self) -> Path:
        return self.directory / "broker.lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.directory / "supervisor.lock"

    @property
    def address(self) -> Path:
        return self.directory / "broker.json"

    @property
    def clients_socket(self) -> Path:
        return self.directory / "clients" / "broker.sock"

    @property
    def workers_socket(self) -> Path:
        return self.directory / "workers" / "broker.sock"

    def stdin(self, name: str) -> Path:
        """The pipe through which a command gets the input of its `grn run`."""
        return self.directory / f"stdin-{name}"

    def sweep(self) -> None:
        """Remove pipes whose `grn run` was killed. Only for a broker that is about to end."""
        for path in self.directory.glob("stdin-*"):
            path.unlink(missing_ok=True)

    def make(self) -> None:
        """Create the directories, or refuse those that others could reach."""
        self._check_length()
        for directory in (
            self.directory,
            self.clients_socket.parent,
            self.workers_socket.parent,
        ):
            make_private(directory)

    def _check_length(self) -> None:
        longest = max(len(os.fsencode(p)) for p in (self.clients_socket, self.workers_socket))
        if longest > MAX_SOCKET_PATH:
            raise UnsafeDirectory(
                f"{self.directory} is too deep: a socket path has at most {MAX_SOCKET_PATH} "
                f"bytes, this one {longest}. Set XDG_RUNTIME_DIR to a shorter directory"
            )


def find_places(environ: Mapping[str, str]) -> Places:
    """Give the places of this user's broker; nothing is created.

    They may change: the runtime directory goes at a logout and comes back at a login, and a
    broker that was started in between is found where it is.
    """
    refuge = Places(state_directory(environ) / "run")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if not runtime or not os.path.isdir(runtime):
        return refuge
    usual = Places(Path(runtime) / "grn")
    return refuge if refuge.address.exists() and not usual.address.exists() else usual


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where what outlives a login is kept."""
    home = environ.get("XDG_STATE_HOME") or os.path.join(
        os.path.expanduser("~"), ".local/state"
    )
    return Path(home) / "grn"


def state_file(environ: Mapping[str, str]) -> Path:
    """What the broker keeps beyond its own life."""
    return state_directory(environ) / "state.db"


def logs_directory(environ: Mapping[str, str]) -> Path:
    """Where what jobs have printed is kept."""
    return state_directory(environ) / "logs"


def make_private(directory: Path) -> None:
    """Create a directory for this user alone, or check that it is one."""
    try:
        for missing in reversed([directory, *directory.parents]):
            with contextlib.suppress(FileExistsError):
                if not missing.exists():
                    missing.mkdir(mode=0o700)
    except OSError as error:
        raise UnsafeDirectory(
            f"cannot create {directory}: {error.strerror}. Set XDG_RUNTIME_DIR and "
            f"XDG_STATE_HOME to directories of your own"
        ) from None
    check_private(directory)


def check_private(directory: Path) -> None:
    """Check that a directory is this user's alone.

    Raises:
        FileNotFoundError: There is none.
        UnsafeDirectory: Others own or may enter it.
    """
    facts = directory.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise UnsafeDirectory(f"{directory} is not a directory: remove it, or move it away")
    if facts.st_uid != os.geteuid():
        raise UnsafeDirectory(
            f"{directory} belongs to user id {facts.st_uid}, not to you: set XDG_RUNTIME_DIR "
            f"and XDG_STATE_HOME to directories of your own"
        )
    if facts.st_mode & 0o077:
        raise UnsafeDirectory(f"others may enter {directory}: run `chmod 700 {directory}`")
