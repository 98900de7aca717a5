"""Runs measurements one after the other: each in a child with a deadline, none left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..apart import ignore_signals, private_home
from ..keeper import PR_SET_CHILD_SUBREAPER, prctl
from .below import end_below
from .echo import Echo, standing_echo
from .figures import Look, Measured, grouped
from .sizes import Size

# What a child may take to go by itself once it is told to, and what then follows SIGTERM.
LEAVE_S: Final = (4.0, 2.0)
# A look at the echo counts for the next measurement, too, if that begins by then.
FRESH_S: Final = 2.0
# As many words as help, of those that a failed child left.
LAST_WORDS: Final = 300

# What to execute, without the words that say what to measure.
Entry = Sequence[str]
Tell = Callable[[str], None]

OWN_ENTRY: Final[Entry] = (sys.executable, "-P", "-m", "grn_zmq.bench.child")


class Runner:
    """Measures in a home of its own. Made by `runner`."""

    def __init__(self, home: Path, echo: Echo, size: Size, tell: Tell) -> None:
        self._home = home
        self._echo = echo
        self._size = size
        self._tell = tell
        self._looked_at = 0.0
        self._look: Look | None = None

    def measure(
        self,
        row: str,
        contender: str,
        entry: Entry = OWN_ENTRY,
        variables: Mapping[str, str] | None = None,
    ) -> Measured:
        """Measure one row of one contender, between two looks at the echo."""
        self._tell(f"{row}: {contender}")
        before = self._fresh_look()
        begun = time.monotonic()
        out = self._home / "samples"
        out.write_text("")
        words = [contender, row, self._size.name, str(out), str(os.getpid())]
        trouble, kept = self._run([*entry, *words], variables or {})
        took_s = time.monotonic() - begun
        samples = [json.loads(line) for line in out.read_text().splitlines()] if kept else []
        looks = (before, self._new_look())
        return Measured(row, contender, grouped(samples), looks, took_s, trouble)

    def _run(self, words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, bool]:
        """Run a child to its end: what went wrong, and whether its samples count."""
        place = self._home / "t"  # what a peer forgets in its temporary directory goes with it
        place.mkdir(exist_ok=True)
        with open(self._home / "said", "w+b") as said:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=place,
                env={**os.environ, "TMPDIR": str(place), **variables},
                start_new_session=True,
            )
            try:
                status = process.wait(self._size.deadline_s)
            except subprocess.TimeoutExpired:
                return f"not done within {self._size.deadline_s:.0f} s", True
            finally:
                self._end(process)
            if status == 0:
                return "", True
            said.seek(0)
            return _last_words(said.read(), status), False

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        end_below(self._echo.pids, LEAVE_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_S[-1])

    def _fresh_look(self) -> Look:
        if self._look is not None and time.monotonic() - self._looked_at < FRESH_S:
            return self._look
        return self._new_look()

    def _new_look(self) -> Look:
        self._look = self._echo.look(self._size)
        self._looked_at = time.monotonic()
        return self._look


def _last_words(said: bytes, status: int) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "it said nothing")
    return f"failed with status {status}: {last[-LAST_WORDS:]}"


@contextlib.contextmanager
def runner(size: Size, tell: Tell) -> Iterator[Runner]:
    """A runner with an echo to compare with. What it has started ends with it, whatever comes.

    For a program that does nothing else, as `private_home` is.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with private_home("grn-bench-") as home:
        try:
            with standing_echo(home / "echo") as echo:
                yield Runner(home, echo, size, tell)
        finally:
            ignore_signals()
            end_below((), LEAVE_S)
