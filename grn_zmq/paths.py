"""Where a user's broker is found: a private directory with its sockets, lock and address.

A user may have several, told apart by name: each has directories of its own.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters, digits
from typing import Final

from .errors import UnsafeDirectory

# What fits into the kernel's address of a unix socket.
MAX_SOCKET_PATH: Final = 107

NAME_VARIABLE: Final = "GRN_NAME"
# Short enough for a socket's path, and for a line of text.
MAX_BROKER_NAME: Final = 32
_NAME: Final = frozenset(ascii_letters + digits + "-_.")
_PLAIN: Final = "grn"


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
    def namespace(self) -> Path:
        """Says in which pid namespace the broker's pids count."""
        return self.directory / "broker.namespace"

    @property
    def devices(self) -> Path:
        """Where pools of workers take the numbers of their host devices."""
        return self.directory / "devices"

    @property
    def clients_socket(self) -> Path:
        return self.directory / "clients" / "broker.sock"

    @property
    def workers_socket(self) -> Path:
        return self.directory / "workers" / "broker.sock"

    def stdin(self, name: str) -> Path:
        """The pipe through which a command gets the input of its `grn run`."""
        return self.directory / f"stdin-{name}"

    def life(self, session: str) -> Path:
        """The file that a client locks for as long as it lives, if it holds a lease."""
        return self.clients_socket.parent / f"{session}.life"

    def sweep(self) -> None:
        """Remove what clients have left. Only for a broker that is about to end."""
        for path in (*self.directory.glob("stdin-*"), *self.directory.glob("clients/*.life")):
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

    Raises:
        BadSetting: GRN_NAME is no name.
    """
    refuge = Places(state_directory(environ) / "run")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if not runtime or not os.path.isdir(runtime):
        return refuge
    usual = Places(Path(runtime) / broker_folder(environ))
    return refuge if refuge.address.exists() and not usual.address.exists() else usual


def broker_name(environ: Mapping[str, str]) -> str:
    """Give the name of the broker that is meant; the usual one has none.

    Raises:
        BadSetting: GRN_NAME is no name.
    """
    name = environ.get(NAME_VARIABLE, "")
    return checked_name(name, f"{NAME_VARIABLE}={name}") if name else ""


def checked_name(name: str, shown: str) -> str:
    """Give a name if it can be one.

    Args:
        shown: How it was said, for the error.

    Raises:
        BadSetting: It would not do as a part of a path.
    """
    if len(name) <= MAX_BROKER_NAME and _NAME.issuperset(name):
        return name
    from .config import BadSetting  # which most who look for a broker do not need

    raise BadSetting(
        f"{shown} cannot be: write a name of letters, digits, -, _ and ., "
        f"at most {MAX_BROKER_NAME} in all"
    )


def use_name(name: str | None) -> None:
    """Let this process, and whatever it starts, mean the broker of this name.

    Raises:
        BadSetting: `--name` says what is no name.
    """
    if name is not None:
        os.environ[NAME_VARIABLE] = checked_name(name, f"--name {name}")


def broker_folder(environ: Mapping[str, str]) -> str:
    """Give what the broker's directories are called: `grn`, or `grn-NAME`.

    Raises:
        BadSetting: GRN_NAME is no name.
    """
    name = broker_name(environ)
    return f"{_PLAIN}-{name}" if name else _PLAIN


def _state_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_STATE_HOME")
    return Path(home or os.path.join(os.path.expanduser("~"), ".local/state"))


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where what outlives a login is kept."""
    return _state_home(environ) / broker_folder(environ)


def claims_directory(environ: Mapping[str, str]) -> Path:
    """Where all brokers of this user say which GPUs they manage.

    The name cannot be that of a broker's directory.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    home = Path(runtime) if os.path.isdir(runtime) else _state_home(environ)
    return home / "grn.devices"


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
