"""Which devices this pool of workers has: no GPU twice, and no number of a host device.

A claim is a lock on a small file, held until this process ends: the kernel lets go of it
whatever happens. GPUs are claimed among all brokers of a user. Host devices are only shares of
memory, of which everybody may have some: they are counted on among the pools of one broker.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from grn_zmq.errors import DeviceError, UnsafeDirectory
from grn_zmq.paths import claims_directory, find_places, make_private

from .devices.choose import gpu_of, renumbered

# For a process that is just ending, or being ended by the death of its parent.
BRIEFLY_S: Final = 0.5
# For a pool that ends its jobs first; longer than a fosterer gives its workers.
LEAVING_S: Final = 15.0
TAKE_AGAIN_S: Final = 0.02


class GpuTaken(DeviceError):
    """A GPU that another pool of workers manages."""

    def __init__(self, index: int, holder: Mapping[str, object], directory: Path) -> None:
        whose, pid = Path(str(holder.get("directory", "?"))), holder.get("pid", "?")
        if whose == directory:
            text = f"by another pool of workers of this broker (pid {pid}). End that one first"
        else:
            text = f"by the broker in {whose} (its workers: pid {pid}). Stop that one first"
        super().__init__(
            f"GPU {index} is managed already, {text}, or choose other GPUs with --devices, "
            f"such as --devices nvml:{index + 1}"
        )
        self.index = index


class Claims:
    """What this process has claimed, until it ends."""

    def __init__(self) -> None:
        self._gpus: list[int] = []
        self._numbers: list[int] = []

    def claim(self, names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
        """Claim planned devices, and give their names: host devices get free numbers.

        Raises:
            GpuTaken: Another pool of this user manages one of them.
            UnsafeDirectory: There is no private place to say so.
        """
        places = find_places(environ)
        given: list[str] = []
        taken = 0
        for name in names:
            gpu = gpu_of(name)
            if gpu is not None:
                self._claim_gpu(*gpu, claims_directory(environ), places.directory)
                given.append(name)
                continue
            number = self._claim_number(taken, places.devices)
            given.append(renumbered(name, number))
            taken = number + 1
        return given

    def leave(self) -> None:
        """Say that we are ending: numbers are free at once, GPUs soon.

        The next worker of a number waits for the end of ours, and takes over what it left.
        """
        for fd in self._gpus:
            os.ftruncate(fd, 0)
        while self._numbers:
            os.close(self._numbers.pop())

    def _claim_gpu(self, index: int, uuid: str, claims: Path, directory: Path) -> None:
        make_private(claims)
        fd = _open(claims / f"{uuid}.lock")
        started = time.monotonic()
        while not _take(fd):
            holder = _read(fd)
            if time.monotonic() - started > (BRIEFLY_S if holder else LEAVING_S):
                os.close(fd)
                raise GpuTaken(index, holder, directory)
            time.sleep(TAKE_AGAIN_S)
        self._gpus.append(fd)
        holder = {"pid": os.getpid(), "directory": str(directory)}
        with contextlib.suppress(OSError):  # a full disk: others learn only that it is taken
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(holder).encode(), 0)

    def _claim_number(self, first: int, devices: Path) -> int:
        make_private(devices)
        deadline = time.monotonic() + BRIEFLY_S
        for number in count(first):
            fd = _open(devices / f"host-{number}.lock")
            while not (taken := _take(fd)) and time.monotonic() < deadline:
                time.sleep(TAKE_AGAIN_S)
            if taken:
                self._numbers.append(fd)
                return number
            os.close(fd)
        raise AssertionError("numbers have no end")


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise UnsafeDirectory(
            f"cannot write {path}: {error.strerror}. Make room there, or set XDG_RUNTIME_DIR "
            f"to a directory of your own"
        ) from None


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> dict[str, object]:
    """Who has it; nothing of one that is leaving, or has only just taken it."""
    with contextlib.suppress(ValueError):
        holder = json.loads(os.pread(fd, 4096, 0))
        if isinstance(holder, dict):
            return holder
    return {}
