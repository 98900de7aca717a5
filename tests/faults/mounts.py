"""Small file systems of a test's own: only root may have them."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20
TRIES = 100


@contextmanager
def small_disk(where: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of this size, empty, private, gone in the end."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system of its own")
    where.mkdir(mode=0o700)
    options = f"size={size_bytes},mode=0700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


@contextmanager
def read_only(where: Path) -> Iterator[None]:
    """As long as it lasts, nothing can be written to that file system."""
    subprocess.run(["mount", "-o", "remount,ro", str(where)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(where)], check=True)


def free_bytes(where: Path) -> int:
    facts = os.statvfs(where)
    return facts.f_bavail * facts.f_frsize


def fill(where: Path, leave_bytes: int = 0) -> Path:
    """Take all of a file system but so much; the file that holds it is given."""
    path = where / "filler"
    with path.open("ab") as file:
        for left in reversed(range(TRIES)):
            try:
                size = file.tell() + free_bytes(where) - leave_bytes
                os.posix_fallocate(file.fileno(), 0, max(1, size))
                break
            except OSError as error:  # somebody else has taken some of it meanwhile
                if error.errno != errno.ENOSPC or not left:
                    raise
    return path
