"""A whole system under test: a `grn start` of its own, clients, faults, and the judgement.

def test_f05_jobs_outlive_their_broker(system: System) -> None:
    load = system.load(4, seconds=(3.0,))
    system.until_started(4)

    system.kill(system.broker_pid())
    system.wait_back()

    system.settle()
    system.assert_clean()
"""

import os
import re
import shutil
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from grn_zmq.cli.asking import Asker
from grn_zmq.discovery import find_address
from grn_zmq.facts import DeviceRow, JobRow
from grn_zmq.paths import Places, find_places, state_file
from tests.cli.scripts import Running, alive, started
from tests.conftest import forget_client
from tests.faults.client import Order
from tests.faults.direct import Direct
from tests.faults.ledger import Checker, Ledger
from tests.faults.load import Load
from tests.faults.program import Program
from tests.waiting import is_marked, processes_marked, until

MARK: Final = "GRN_FAULT_RUN"
DEVICES: Final = ("--devices", "host:2x500MiB", "--max-jobs", "4")
COUNT: Final = 2
ANSWER_S: Final = 5.0
ROOT: Final = Path(__file__).parents[2]


def failpoint_names() -> set[str]:
    """Every place in the product where a test can make a process fail."""
    found: set[str] = set()
    for folder in ("grn_zmq", "broker", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"\bfailpoint\(\s*\"([^\"]+)\"", path.read_text()))
    return found


class System:
    """Broker and workers in a home of their own, for as long as the `with` block lasts."""

    def __init__(
        self,
        *options: str,
        state_home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        below: Sequence[str] = (),
    ) -> None:
        """Prepare.

        Args:
            options: Of `grn start`; two small devices unless said otherwise.
            state_home: Where the broker keeps its state, if that is to be a special disk.
            environment: More variables for broker and workers, not for clients.
            below: A command that executes `grn start`, such as `prlimit`.
        """
        self._options = options or DEVICES
        self._state_home = state_home
        self._environment = environment
        self._below = below
        self.home = Path(tempfile.mkdtemp(prefix="grn-"))
        self.orders = self.home / "failpoints"
        self.ledger = Ledger(self.home / "ledger")
        self.direct = Direct(self.home, self.ledger.path)
        self._patch = pytest.MonkeyPatch()
        self._loads: list[Load | Program] = []
        self._logs: list[str] = []
        self._mark = uuid.uuid4().hex
        self.server: Running | None = None

    def __enter__(self) -> "System":
        self.orders.mkdir()
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            place = self.home / name.split("_")[1].lower()
            place.mkdir(mode=0o700)
            self._patch.setenv(name, str(place))
        if self._state_home is not None:
            self._patch.setenv("XDG_STATE_HOME", str(self._state_home))
        self._patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self._patch.setenv(MARK, self._mark)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for load in self._loads:
            load.end()
        forget_client()
        self.stop()
        self._patch.undo()
        shutil.rmtree(self.home)

    def start(self, *more: str) -> None:
        """Start it; also again, after `stop`."""
        options = [*self._options, "--failpoints", str(self.orders), *more]
        self.server = started(*options, environment=self._environment, below=self._below)

    def stop(self, signum: int = signal.SIGTERM) -> None:
        """End all of it, as a user would; with SIGKILL, all at once."""
        if self.server is None:
            return
        self.server.process.send_signal(signum)
        self.server.ended(60)
        self._logs.append(self.server.err)
        self.server.__exit__(None, None, None)
        self.server = None

    @property
    def places(self) -> Places:
        return find_places(os.environ)

    @property
    def state(self) -> Path:
        return state_file(os.environ)

    def log(self) -> str:
        """What supervisor, broker and workers have logged, over all starts."""
        return "".join([*self._logs, self.server.err if self.server else ""])

    def broker_pid(self, seconds: float = 10.0) -> int:
        """The broker that is ready, waited for if there is none."""
        until(lambda: find_address(self.places), seconds, self.log)
        address = find_address(self.places)
        return address.pid if address else self.broker_pid(seconds)

    def devices(self) -> list[DeviceRow]:
        """The devices whose workers have joined, in order; none while there is no broker."""
        with self._asker() as asker:
            rows = asker.devices(ANSWER_S) if asker else ()
        return sorted(rows, key=lambda row: row.facts.index)

    def jobs(self) -> list[JobRow] | None:
        """The jobs that have not ended; None if no broker says."""
        with self._asker() as asker:
            return asker.jobs(ANSWER_S) if asker else None

    def worker_pids(self) -> list[int]:
        """The workers that have joined, in the order of their devices."""
        return [row.worker_pid for row in self.devices()]

    def processes(self) -> list[int]:
        """All that was started in this system and lives, clients and jobs too."""
        return list(processes_marked(MARK, self._mark))

    @contextmanager
    def _asker(self) -> Iterator[Asker | None]:
        address = find_address(self.places)
        if address is None:
            yield None
            return
        with Asker(address.clients) as asker:
            yield asker

    def kill(self, pid: int, signum: int = signal.SIGKILL) -> None:
        """Kill one process; when this returns it is dead, unless another signal was asked."""
        os.kill(pid, signum)
        if signum == signal.SIGKILL:
            until(lambda: not alive(pid), 5)

    @contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """One process stands still meanwhile, unless it is killed."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def arm(self, name: str, action: str) -> None:
        """Let the next process that comes by this failpoint do it; see `failpoints.py`."""
        assert name in failpoint_names(), f"there is no failpoint {name}"
        draft = self.orders / f".{name}"
        draft.write_text(action)
        draft.rename(self.orders / name)

    def fired(self, name: str) -> bool:
        return not (self.orders / name).exists()

    def until_fired(self, name: str, seconds: float = 15.0) -> None:
        until(lambda: self.fired(name), seconds, lambda: f"{name}\n{self.log()}")

    def wait_back(self, seconds: float = 10.0, devices: int = COUNT) -> None:
        """Wait until a broker is ready and all workers have joined it."""
        until(lambda: len(self.devices()) == devices, seconds, self.log)

    def load(self, count: int, **order: Any) -> Load:
        """Let a client submit so many jobs; see `Order` for what they are like."""
        whole = Order(str(self.ledger.path), count, **order)
        load = Load(self.home, f"client-{len(self._loads)}", whole)
        self._loads.append(load)
        return load

    def program(self, code: str, *, stays: bool = True) -> Program:
        """Let another client run this code; see `Program` for what it has."""
        name = f"client-{len(self._loads)}"
        program = Program(self.home, name, self.ledger.path, code, stays=stays)
        self._loads.append(program)
        return program

    def until_started(self, count: int, seconds: float = 20.0) -> None:
        """Wait until so many bodies have started, over all clients."""
        until(lambda: self.ledger.count("start") >= count, seconds, self._state)

    def running(self) -> dict[str, int]:
        """The process of each job whose body is at work."""
        return {
            job_id: pid
            for job_id, pid in self.ledger.pids().items()
            if is_marked(pid, MARK, self._mark)
        }

    def until_running(self, count: int, seconds: float = 20.0) -> dict[str, int]:
        """Wait until so many bodies are at work; give the process of each."""
        until(lambda: len(self.running()) >= count, seconds, self._state)
        return self.running()

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until all clients have ended and nothing is live."""
        until(lambda: all(load.ended for load in self._loads), seconds, self._state)
        for load in self._loads:
            load.wait()
        until(lambda: self.jobs() == [], seconds, self._state)

    def _state(self) -> str:
        clients = "\n".join(load.said() for load in self._loads)
        return f"{clients}\nlive: {self.jobs()}\n{self.log()}"

    def checker(self, seen: Iterable[tuple[str, str]] = ()) -> Checker:
        """Everything that is known now, joined; `seen` are outcomes that were kept once."""
        supervisor = [self.server.pid] if self.server else []
        return Checker(
            self.ledger,
            [*((load.path, load.stayed) for load in self._loads), (self.direct.path, True)],
            self.state,
            (MARK, self._mark),
            [*supervisor, *(load.process.pid for load in self._loads)],
            seen,
        )

    def assert_clean(self, also: Collection[str] = ()) -> Counter[str]:
        """Nothing that must never happen has happened; give how many jobs ended how."""
        checker = self.checker()
        verdict = checker.verdict(also)
        assert verdict.clean, "\n".join([*verdict.findings, self.log()])
        return checker.outcomes()
