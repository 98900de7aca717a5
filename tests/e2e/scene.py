"""The test's side of jobs that grab memory: machines, gates, notes, clients, facts."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import grn_zmq as grn
from grn_zmq.facts import DeviceRow, JobRow
from grn_zmq.starting import running_pid
from tests.conftest import forget_client
from tests.e2e import grabbing
from tests.e2e.listed import all_devices, all_jobs
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
MIB = grabbing.MIB
ENOUGH_RUNS = 20
MAX_JOBS = 8
# For results that surely come: how long a broken test may hang.
LONG_S = 30 * PATIENCE


@dataclass(frozen=True)
class Machine:
    """A broker and its devices; `driver` plays the GPUs, where there are any."""

    kind: str
    server: grn.Server
    driver: FakeDriver | None

    def mib(self, size: int) -> int:
        """Sizes are written as for GPUs of 1000 MiB; host memory is dearer."""
        return size if self.kind == "nvml" else size * 3 // 10

    @property
    def gpus(self) -> FakeDriver:
        assert self.driver is not None
        return self.driver


@contextmanager
def a_machine(kind: str, home: Path, *sizes: int) -> Iterator[Machine]:
    """Start a broker with devices of these sizes, of stand-in GPUs or of host memory."""
    driver = FakeDriver(home / "nvml", sizes) if kind == "nvml" else None
    with pytest.MonkeyPatch.context() as patch:
        # What the broker before it learned in this home is none of its business.
        patch.setenv("XDG_STATE_HOME", tempfile.mkdtemp(prefix="state-", dir=home))
        for name, value in (driver.environment() if driver else {}).items():
            patch.setenv(name, value)
        shares = ",".join(f"{size * 3 // 10}MiB" for size in sizes)
        devices = "nvml" if driver else f"host:{shares}"
        with grn.start(devices, max_jobs=MAX_JOBS, debug=True) as server:
            yield Machine(kind, server, driver)
            forget_client()


class Note(NamedTuple):
    word: str
    job_id: str
    pid: int
    device: str


class Scene:
    """A directory in which jobs leave notes and wait at gates."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.place = str(directory)
        self._gates: dict[str, int] = {}
        self._clients: list[subprocess.Popen[str]] = []

    def close_gate(self, name: str = "gate") -> str:
        """Make a gate at which jobs wait; give its name."""
        self._gates[name] = os.open(self.directory / name, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._gates[name], fcntl.LOCK_EX)
        return name

    def open_gate(self, name: str = "gate") -> None:
        gate = self._gates.pop(name)
        fcntl.flock(gate, fcntl.LOCK_UN)
        os.close(gate)

    def notes(self, *words: str) -> list[Note]:
        """What jobs have noted so far, in order; all of it, or these words only."""
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        fields = [line.split(" ") for line in lines]
        found = [Note(word, job_id, int(pid), device) for word, job_id, pid, device in fields]
        return [one for one in found if not words or one.word in words]

    def await_notes(self, word: str, count: int, seconds: float = 10.0) -> list[Note]:
        """Wait until a word was noted so often."""
        until(lambda: len(self.notes(word)) >= count, seconds, lambda: f"{self.notes()}")
        return self.notes(word)

    def words(self) -> list[str]:
        return [one.word for one in self.notes()]

    def client(self, code: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start another client: a program that has `grn`, `grabbing as g` and `place`."""
        program = (
            "import sys, grn_zmq as grn; from tests.e2e import grabbing as g; "
            f"place = {self.place!r}; {code}"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._clients.append(process)
        return process

    def close(self) -> None:
        """Let everybody go, and wait until nobody is there."""
        for name in list(self._gates):
            self.open_gate(name)
        for client in self._clients:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
        if running_pid() is not None:
            until(lambda: not all_jobs(ended=False), 20, lambda: f"{all_jobs(ended=False)}")


def learn(job: Callable[..., Any], place: str, mib: int, runs: int = ENOUGH_RUNS) -> None:
    """Make a type known by equal runs."""
    submit = job.submit  # type: ignore[attr-defined]
    for future in [submit(place, mib) for _ in range(runs)]:
        future.result(LONG_S)


def rows_of(job_type: str) -> list[JobRow]:
    return [row for row in all_jobs(ended=True) if row.job_type == job_type]


def row_of(job_id: str) -> JobRow:
    return next(row for row in all_jobs(ended=True) if row.job_id == job_id)


def running() -> list[JobRow]:
    """The jobs that have a lease; that one has begun may not be known here yet."""
    return [row for row in all_jobs(ended=False) if row.state in ("assigned", "running")]


def waiting() -> list[JobRow]:
    return [row for row in all_jobs(ended=False) if row.state == "queued"]


def per_device(notes: list[Note]) -> list[int]:
    """How many notes each device has, the most first."""
    return sorted(Counter(one.device for one in notes).values(), reverse=True)


def device(index: int) -> DeviceRow:
    return next(row for row in all_devices() if row.facts.index == index)


def check_leases() -> None:
    """No device has promised more than strangers leave of it."""
    for row in all_devices():
        promised = row.leased_bytes + row.foreign_bytes
        assert promised <= row.facts.total_bytes, row


@contextmanager
def a_stranger() -> Iterator[int]:
    """A living process that is none of ours; give its pid."""
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        yield stranger.pid
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def children(pid: int) -> dict[int, str]:
    """The state of every process below this one, zombies too."""
    found: dict[int, str] = {}
    parents: dict[int, list[tuple[int, str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        parents.setdefault(int(parent), []).append((int(path.parent.name), state))
    below = [pid]
    while below:
        for child, state in parents.get(below.pop(), []):
            found[child] = state
            below.append(child)
    return found
