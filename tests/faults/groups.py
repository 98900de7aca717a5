"""Memory control groups of a test's own: only root may have them, and not everywhere."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """A group whose processes have so much memory together, and no swap; gone in the end."""
    first = (V1 / "memory.limit_in_bytes").exists()
    limit = "memory.limit_in_bytes" if first else "memory.max"
    group = (V1 if first else V2) / f"grn-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        if not (group / limit).exists():
            pytest.skip("control groups do not limit memory here")
        (group / limit).write_text(str(limit_bytes))
        for name, text in (
            ("memory.memsw.limit_in_bytes", str(limit_bytes)),
            ("memory.swap.max", "0"),
        ):
            with contextlib.suppress(OSError):
                if (group / name).exists():
                    (group / name).write_text(text)
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), 10)
        group.rmdir()


@contextmanager
def inside(group: Path) -> Iterator[None]:
    """What this process starts meanwhile is in the group; the process itself only for now."""
    before = _own_group(group)
    _enter(group)
    try:
        yield
    finally:
        _enter(before)


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _own_group(like: Path) -> Path:
    """Where this process is now, in the hierarchy of that group."""
    first = like.is_relative_to(V1)
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if ("memory" in controllers.split(",")) if first else not controllers:
            return (V1 if first else V2) / path.lstrip("/")
    pytest.skip("this process is in no control group of that kind")
