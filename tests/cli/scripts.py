"""Running our own commands as a user does: from another directory, streams in files."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.waiting import PATIENCE, until

BIN: Final = Path(sys.executable).parent
SCRIPTS: Final = ("grn", "grn-start", "grn-run", "grn-broker", "grn-workers")
# What no command of ours may take, however loaded the machine is.
HANGS_S: Final = 40.0

TRACEBACK: Final = "Traceback"


def script(name: str, *words: str) -> list[str]:
    return [str(BIN / name), *words]


def run(
    name: str,
    *words: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = HANGS_S,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command of ours to its end, from a directory that has nothing to do with us."""
    return subprocess.run(
        script(name, *words),
        input=stdin,
        capture_output=True,
        timeout=timeout_s * PATIENCE,
        cwd="/",
        env={**os.environ, **(environment or {})},
    )


class Running:
    """A command of ours that goes on: in a session of its own, so that it can be signalled."""

    def __init__(
        self, name: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            script(name, *words),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            cwd="/",
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return _content(self._out.fileno())

    @property
    def err(self) -> str:
        return _content(self._err.fileno())

    def until_out(self, text: str, seconds: float = 20.0) -> None:
        until(lambda: text in self.out or self.process.poll() is not None, seconds, self.said)
        assert text in self.out, self.said()

    def until_err(self, text: str, seconds: float = 20.0) -> None:
        until(lambda: text in self.err or self.process.poll() is not None, seconds, self.said)
        assert text in self.err, self.said()

    def said(self) -> str:
        return f"stdout:\n{self.out}\nstderr:\n{self.err}\nstatus: {self.process.poll()}"

    def interrupt(self) -> None:
        """What Ctrl-C does: every process of the foreground group gets the signal."""
        os.killpg(self.pid, signal.SIGINT)

    def ended(self, seconds: float = 20.0) -> int:
        """Wait for its end and give its exit status."""
        return self.process.wait(seconds * PATIENCE)

    def __enter__(self) -> "Running":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(HANGS_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._out.close()
        self._err.close()


def started(
    *words: str, environment: Mapping[str, str] | None = None, below: Sequence[str] = ()
) -> Running:
    """A `grn start` in the foreground that is ready; `below` is a command that executes it."""
    command = [*below, *script("grn"), "start", *words]
    running = Running(command[0], *command[1:], environment=environment)
    try:
        running.until_out("Ready in ", 30)
    except BaseException:
        running.__exit__(None, None, None)
        raise
    return running


def _content(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")


def descendants(pid: int) -> list[int]:
    """The processes below one, by the kernel's own list."""
    found: list[int] = []
    todo = [pid]
    while todo:
        one = todo.pop()
        children = _children(one)
        found += children
        todo += children
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [
            int(child) for task in tasks for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def any_alive(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if alive(pid)]
