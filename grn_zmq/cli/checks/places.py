"""Checks of directories: where sockets, jobs and large values are kept."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...config import BadSetting, config_file, read_config
from ...errors import UnsafeDirectory
from ...parcels import SHARED_MEMORY
from ...paths import MAX_SOCKET_PATH, Places, check_private
from ...units import MIB, format_bytes
from ..hosting.systemctl import goes_at_logout, is_lingering
from .finding import OK, PROBLEM, WARNING, Finding

# Neither sockets nor SQLite's log are for several machines.
_NETWORK: Final = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs"),
    *("glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.ceph", "drvfs"),
}
_FLEETING: Final = {
    "tmpfs": "memory: jobs and what was learned go with the next restart",
    "ramfs": "memory: jobs and what was learned go with the next restart",
    "overlay": "a container's own layer: jobs and what was learned go with it",
}
# How the kernel writes a space, a tab, a newline or a backslash in the path of a mount.
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
# As in `broker/disk.py`, which this package may not import.
FLOOR_BYTES: Final = 256 * MIB
FLOOR_SHARE: Final = 20
# Containers have 64 MiB unless told otherwise.
_LITTLE_BYTES: Final = 512 * MIB


def check_settings(environ: Mapping[str, str]) -> Finding:
    """Whether a start would accept them."""
    try:
        found = read_config(environ)
    except BadSetting as error:
        fix = f"mend it until `grn config` shows them; their file is {config_file(environ)}"
        return Finding("settings", PROBLEM, str(error), fix)
    path = config_file(environ)
    read = f"read from {path}" if path.exists() else f"there is no {path}"
    return Finding("settings", OK, f"{len(found.sources)} set; {read}")


def check_runtime(environ: Mapping[str, str], places: Places) -> Finding:
    """Whether sockets can be where they should."""
    name = "runtime directory"
    longest = max(len(os.fsencode(p)) for p in (places.clients_socket, places.workers_socket))
    if longest > MAX_SOCKET_PATH:
        text = (
            f"{places.directory} is too deep: a socket path has at most {MAX_SOCKET_PATH} bytes"
        )
        return Finding(name, PROBLEM, text, "set XDG_RUNTIME_DIR to a shorter directory")
    if (found := _unusable(name, places.directory, "XDG_RUNTIME_DIR")) is not None:
        return found
    kind = file_system(places.directory)
    if kind in _NETWORK:
        text = f"{places.directory} is on {kind}, where sockets do not work"
        return Finding(name, PROBLEM, text, "set XDG_RUNTIME_DIR to a local directory")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and not os.path.isdir(runtime):
        text = f"XDG_RUNTIME_DIR={runtime} does not exist, so sockets are in {places.directory}"
        return Finding(name, WARNING, text, "log in anew, or unset it everywhere")
    return Finding(name, OK, f"{places.directory} on {kind}, {_state_of(places.directory)}")


def check_state(directory: Path) -> Finding:
    """Whether jobs can be kept, and for how long."""
    name = "state directory"
    if (found := _unusable(name, directory, "XDG_STATE_HOME")) is not None:
        return found
    kind = file_system(directory)
    facts = os.statvfs(_existing(directory))
    free, total = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    floor = min(FLOOR_BYTES, total // FLOOR_SHARE)
    if not total or free < floor or (facts.f_files and not facts.f_favail):
        less = f"below {format_bytes(floor)} no jobs are taken"
        text = f"{directory} has {format_bytes(free)} left: {less}"
        return Finding(name, PROBLEM, text, "make room, or set XDG_STATE_HOME to another disk")
    if kind in _NETWORK:
        text = f"{directory} is on {kind}: the journal is not safe there"
        return Finding(name, WARNING, text, "set XDG_STATE_HOME to a local directory")
    if kind in _FLEETING:
        text = f"{directory} is in {_FLEETING[kind]}"
        return Finding(name, WARNING, text, "set XDG_STATE_HOME to a disk that stays")
    text = f"{directory} on {kind}, {format_bytes(free)} left, {_state_of(directory)}"
    return Finding(name, OK, text)


def check_shared_memory(directory: Path = SHARED_MEMORY) -> Finding:
    """Whether large arguments and results of attached jobs have room."""
    name = "shared memory"
    if not os.access(directory, os.W_OK | os.X_OK):
        text = f"{directory} cannot be written: arguments of 1 MiB and more cannot travel"
        return Finding(name, PROBLEM, text, f"mount it: mount -t tmpfs tmpfs {directory}")
    facts = os.statvfs(directory)
    free, total = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    text = f"{directory} has {format_bytes(free)} left of {format_bytes(total)}"
    if total < _LITTLE_BYTES:
        text += ": little for large arguments and results"
        return Finding(name, WARNING, text, "in a container: run it with --shm-size=4g")
    if free < total // FLOOR_SHARE:
        return Finding(
            name, WARNING, text, f"remove what nobody needs there: ls -la {directory}"
        )
    return Finding(name, OK, text)


def check_logout(environ: Mapping[str, str], uid: int) -> Finding:
    """Whether the runtime directory outlives the last login."""
    if not goes_at_logout(environ, uid):
        return Finding("logout", OK, "the runtime directory stays when you log out")
    if is_lingering(uid):
        return Finding("logout", OK, "you linger: the runtime directory stays at a logout")
    text = f"/run/user/{uid} goes with your last login, and a broker may be ended with it"
    return Finding("logout", WARNING, text, "loginctl enable-linger")


def file_system(path: Path) -> str:
    """Name the type of the file system that a path is, or would be, on."""
    real = os.path.realpath(path)
    best, kind = "", "unknown"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), before.split()[4])
            below = point == "/" or real == point or real.startswith(point + "/")
            if below and len(point) >= len(best):
                best, kind = point, after.split()[0]
    return kind


def _unusable(name: str, directory: Path, variable: str) -> Finding | None:
    """Say why a directory of ours cannot be used, if so."""
    try:
        check_private(directory)
        place = directory
    except FileNotFoundError:
        place = _existing(directory)
    except (UnsafeDirectory, NotADirectoryError) as error:
        text, _, fix = str(error).partition(": ")
        return Finding(name, PROBLEM, text, fix or f"set {variable} to a directory of your own")
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return None
    what = "written" if place == directory else f"made in {place}"
    fix = f"set {variable} to a directory of your own"
    return Finding(name, PROBLEM, f"{directory} cannot be {what}", fix)


def _existing(directory: Path) -> Path:
    return next(one for one in (directory, *directory.parents) if one.exists())


def _state_of(directory: Path) -> str:
    return "private" if directory.exists() else "made at the first start"
