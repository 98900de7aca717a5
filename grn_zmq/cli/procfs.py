"""What the kernel tells of processes: commands, parents, the job they belong to, their age."""

import os
import time
from pathlib import Path

from ..naming import printable
from ..processes import process_born


def command_of(pid: int) -> str:
    """Its command line, or its name where that is hidden; nothing if there is no such one."""
    words = _read(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ")
    if words:
        return printable(words.decode(errors="replace"))
    return printable(_read(pid, "comm").decode(errors="replace").strip())


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped is gone."""
    return _stat(pid)[:1] not in ([], [b"Z"], [b"X"])


def parent_of(pid: int) -> int:
    """The pid above it; 0 at the top, or if there is no such process."""
    facts = _stat(pid)
    return int(facts[1]) if len(facts) > 1 else 0


def ancestry(pid: int) -> list[int]:
    """The process itself, the one that started it, and so on to the top."""
    found: list[int] = []
    while pid > 0 and pid not in found:
        found.append(pid)
        pid = parent_of(pid)
    return found


def job_id_in(pid: int) -> str:
    """The job that it was started for, by the variable that jobs hand down; or nothing."""
    for entry in _read(pid, "environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"GRN_JOB_ID":
            return value.decode(errors="replace")
    return ""


def age_s(pid: int) -> float | None:
    """How long it has been there; None if it is not."""
    born = process_born(pid)
    if not born:
        return None
    born_s = born / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - born_s)


def machine() -> tuple[str, str]:
    """The name of this machine, and its operating system."""
    facts = os.uname()
    return facts.nodename, f"{facts.sysname} {facts.release}"


def _stat(pid: int) -> list[bytes]:
    """The facts behind the name, which may contain anything."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
