"""What a check of `grn doctor` finds, and what several checks look at."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact in one line, and where it is not good, what mends it in another.

    A problem keeps something from working; with a warning all works, but not as well.
    """

    name: str
    level: str
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine, as far as we may see it."""

    pid: int
    uid: int
    words: tuple[str, ...] = field(repr=False)

    @property
    def program(self) -> str:
        return os.path.basename(self.words[0]) if self.words else ""


def all_processes() -> list[Process]:
    """List what runs here; what ends meanwhile, or is hidden, is left out."""
    return list(_processes())


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        directory = Path("/proc", name)
        try:
            uid = directory.stat().st_uid
            words = (directory / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        yield Process(int(name), uid, tuple(map(os.fsdecode, words)))


def checked(name: str, check: Callable[[], Finding]) -> Finding:
    """Run one check; whatever it stumbles over is a finding too."""
    try:
        return check()
    except Exception as error:
        text = f"could not be checked: {' '.join(str(error).split()) or type(error).__name__}"
        return Finding(name, WARNING, text, "look at what the line names, then try again")
