"""A wall clock that a test sets for the processes it starts; the monotonic clock goes on."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).with_name("wall_clock.c")
DAY_S: Final = 24 * 3600


class Clock:
    """A wall clock in a file, and a library that makes processes believe it."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler here")
        self._file = directory / "clock"
        self._library = directory / "wall_clock.so"
        command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-O1", "-fPIC", "-shared"]
        subprocess.run([*command, str(SOURCE), "-o", str(self._library)], check=True)
        self.set(0)

    def environment(self) -> dict[str, str]:
        """What a process is started with that believes it."""
        return {"LD_PRELOAD": str(self._library), "TEST_CLOCK_FILE": str(self._file)}

    def set(self, difference_s: int) -> None:
        """Set it apart from the real one by so much."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{difference_s}\n")
        draft.rename(self._file)
