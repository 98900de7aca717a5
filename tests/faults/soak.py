"""A month of a laboratory, compressed: many jobs, and everything dies again and again.

`python -m tests.faults soak --scale 0.02` takes less than a minute, the whole one half an hour.
"""

import heapq
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from tests.faults.clocks import DAY_S, Clock
from tests.faults.harness import System
from tests.faults.ledger import BY_FAULT, Verdict, outcomes_in
from tests.faults.load import Load
from tests.faults.mounts import MIB, fill, small_disk
from tests.faults.vitals import Vitals, vitals_of
from tests.waiting import PATIENCE, until

DEVICES: Final = 4
OPTIONS: Final = ("--devices", f"host:{DEVICES}x200MiB", "--max-jobs", "4")
# Of eleven jobs one sleeps. Clients are killed half way, so 20,000 and 2,000 are taken in all.
SECONDS: Final = (*(0.0,) * 10, 2.5)
JOBS_PER_CLIENT: Final = 44
DISK_BYTES: Final = 256 * MIB
FULL_S: Final = 2.0
STOPPED_S: Final = (0.1, 2.0)
# How long the whole one takes, and the shortest.
WHOLE_S: Final = 1500.0
LEAST_S: Final = 8.0
MOST_CLIENTS: Final = 10
LATEST_S: Final = 1800.0
# Of ended jobs the broker keeps ten thousand, until then it grows: by so much for each.
KEPT_BYTES: Final = 3 << 10
# How often it is looked at what it keeps, before it forgets the oldest.
LOOK_S: Final = 10.0
# How long idle job processes may stay, and how long all else may take to go.
IDLE_S: Final = 75.0
CALM_S: Final = 10.0


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seconds: float
    clients: int
    killed_clients: int
    brokers: int
    workers: int
    jobs: int
    stops: int
    full: int
    jumps: int

    @staticmethod
    def of(scale: float) -> "Plan":
        def part(whole: int) -> int:
            return max(1, round(whole * scale))

        return Plan(
            seconds=max(LEAST_S, WHOLE_S * scale),
            clients=part(1000) + part(100),
            killed_clients=part(1000),
            brokers=part(60),
            workers=part(200),
            jobs=part(1000),
            stops=part(100),
            full=part(5),
            jumps=part(5),
        )


@dataclass
class Report:
    """What was done, and what came of it.

    If it is a whole one, idle job processes must be gone in the end, and all they had open.
    """

    whole: bool = False
    undone: int = 0
    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    refused: int = 0
    took_s: float = 0.0
    before: Vitals = field(default_factory=Vitals)
    half: Vitals = field(default_factory=Vitals)
    end: Vitals = field(default_factory=Vitals)
    notes: list[str] = field(default_factory=list)

    @property
    def leaks(self) -> list[str]:
        """What has grown that should not have."""
        more = max(0, self.end.ended_jobs - self.half.ended_jobs)
        most_bytes = self.half.broker_bytes * 1.05 + 5 * MIB + more * KEPT_BYTES
        found = []
        if self.end.broker_bytes > most_bytes:
            found.append(
                f"broker: {self.half.broker_bytes} bytes, then {self.end.broker_bytes}"
            )
        names = ["threads", "spool_files", "shm_files"]
        # Job processes wait for a minute to be used again, each with some descriptors.
        if self.whole or self.end.job_processes <= self.before.job_processes:
            names += ["job_processes", "fds"]
        for name in names:
            first, last = getattr(self.before, name), getattr(self.end, name)
            if last > first:
                found.append(f"{name}: {first} before, {last} in the end")
        return found

    @property
    def clean(self) -> bool:
        return self.verdict.clean and not self.leaks and not self.undone

    def text(self) -> str:
        verdict = self.verdict
        marks = (
            f"{verdict.lost}/{verdict.duplicate}/{verdict.double_start}/{verdict.unexpected}"
            f"/{verdict.stuck}/{verdict.orphan}"
        )
        lines = [
            f"soak: {self.took_s:.0f} s; {marks} "
            "(lost/duplicate/double start/unexpected/stuck/orphan)",
            f"  done: {dict(sorted(self.done.items()))}",
            f"  ends: {dict(sorted(self.outcomes.items()))}, refused: {self.refused}",
            f"  before: {self.before}",
            f"  half:   {self.half}",
            f"  end:    {self.end}",
            *(f"  note: {note}" for note in self.notes),
            *([f"  UNDONE: {self.undone} things, for lack of time"] if self.undone else []),
            *(f"  LEAK: {leak}" for leak in self.leaks),
            *(f"  {finding}" for finding in verdict.findings[:20]),
        ]
        return "\n".join(lines)


class Soak:
    """Carries a plan out, each thing at its random time."""

    def __init__(
        self, system: System, plan: Plan, seed: int, disk: Path | None, clock: Clock | None
    ) -> None:
        self._system = system
        self._plan = plan
        self._chance = random.Random(seed)
        self._disk = disk
        self._clock = clock
        self._clients: list[Load] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._seen: set[tuple[str, str]] = set()
        self._began = 0.0
        self.report = Report(whole=plan.seconds > WHOLE_S / 20)

    def run(self) -> Report:
        """Do all of it, wait until nothing is live, and judge."""
        report = self.report
        until(lambda: vitals_of(self._system, DEVICES) is not None, 10)
        report.before = self._vitals()
        self._began = time.monotonic()
        self._schedule()
        deadline = self._began + LATEST_S * PATIENCE
        while self._due and time.monotonic() < deadline:
            at, _, action = heapq.heappop(self._due)
            time.sleep(max(0.0, at - time.monotonic()))
            action()
        report.undone = len(self._due)
        self._system.settle(120)
        report.took_s = time.monotonic() - self._began
        self._look_at_the_end()
        return report

    def _schedule(self) -> None:
        plan, chance = self._plan, self._chance
        doomed = set(chance.sample(range(plan.clients), plan.killed_clients))
        for number in range(plan.clients):
            at = plan.seconds * number / plan.clients
            self._at(at, partial(self._start, number in doomed))
        whenever: list[tuple[int, Callable[[], None]]] = [
            (plan.brokers, self._kill_broker),
            (plan.workers, self._kill_worker),
            (plan.jobs, self._kill_job),
            (plan.stops, self._stop_somebody),
            (plan.full if self._disk else 0, self._fill_disk),
            (plan.jumps if self._clock else 0, self._jump),
        ]
        for times, action in whenever:
            for _ in range(times):
                self._at(chance.uniform(0.05, 0.95) * plan.seconds, action)
        self._at(plan.seconds / 2, self._look_at_half)
        self._at(LOOK_S, self._look_at_outcomes)

    def _at(self, after_s: float, action: Callable[[], None]) -> None:
        """Have it done so long after the beginning."""
        heapq.heappush(self._due, (self._began + after_s, next(self._order), action))

    def _soon(self, after_s: float, action: Callable[[], None]) -> None:
        self._at(time.monotonic() - self._began + after_s, action)

    def _did(self, what: str) -> None:
        self.report.done[what] += 1

    def _living(self) -> list[Load]:
        return [one for one in self._clients if one.process.poll() is None]

    def _start(self, killed: bool) -> None:
        """Let a client come, and with it its end, if that is to be a sudden one."""
        if len(self._living()) >= MOST_CLIENTS:
            self._soon(0.2, lambda: self._start(killed))
            return
        seconds = list(SECONDS)
        self._chance.shuffle(seconds)
        load = self._system.load(
            JOBS_PER_CLIENT, seconds=tuple(seconds), pause_s=0.02, failing=11
        )
        self._clients.append(load)
        self._did("clients")
        if killed:
            after = self._chance.randrange(JOBS_PER_CLIENT)
            self._soon(0.3, lambda: self._kill_client(load, after))

    def _kill_client(self, load: Load, after: int) -> None:
        """Kill it once it has so many jobs accepted: at the very first, or the very last."""
        if load.process.poll() is not None:
            self._did("clients that were faster")
        elif load.count("accepted") < after:
            self._soon(0.05, lambda: self._kill_client(load, after))
        else:
            load.kill()
            self._did("clients killed")

    def _kill_broker(self) -> None:
        self._kill("brokers killed", self._system.broker_pid(30))

    def _kill_worker(self) -> None:
        pids = self._system.worker_pids()
        if not pids:
            self._soon(0.3, self._kill_worker)
            return
        self._kill("workers killed", self._chance.choice(pids))

    def _kill_job(self) -> None:
        """Kill a job that sleeps; if none does, later, as long as there will be any."""
        pids = list(self._system.running().values())
        if pids:
            self._kill("jobs killed", self._chance.choice(pids))
        elif self._living():
            self._soon(0.3, self._kill_job)

    def _kill(self, what: str, pid: int) -> None:
        try:
            self._system.kill(pid)
        except ProcessLookupError:
            return
        self._did(what)

    def _stop_somebody(self) -> None:
        """Let a broker, a worker, a client or a job stand still for a while."""
        clients = [one.process.pid for one in self._living()]
        jobs = list(self._system.running().values())
        kinds = [[self._system.broker_pid(30)], self._system.worker_pids(), clients, jobs]
        pid = self._chance.choice(self._chance.choice([one for one in kinds if one]))
        try:
            self._system.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return
        self._did("stopped")
        self._soon(self._chance.uniform(*STOPPED_S), lambda: self._go_on(pid))

    def _go_on(self, pid: int) -> None:
        try:
            self._system.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def _fill_disk(self) -> None:
        assert self._disk is not None
        filler = fill(self._disk)
        self._did("disks full")
        self._soon(FULL_S, lambda: filler.unlink(missing_ok=True))

    def _jump(self) -> None:
        assert self._clock is not None
        self._clock.set(self._chance.choice([-1, 1]) * self._chance.randrange(DAY_S))
        self._did("clock jumps")

    def _look_at_outcomes(self) -> None:
        try:
            self._seen.update(outcomes_in(self._system.state))
        except sqlite3.Error:
            pass  # its disk is full at present
        if self._due:
            self._soon(LOOK_S, self._look_at_outcomes)

    def _look_at_half(self) -> None:
        if vitals := vitals_of(self._system, DEVICES):
            self.report.half = vitals
        else:
            self._soon(0.1, self._look_at_half)

    def _vitals(self) -> Vitals:
        vitals = vitals_of(self._system, DEVICES)
        assert vitals is not None
        return vitals

    def _look_at_the_end(self) -> None:
        report = self.report
        self._system.wait_back(30, DEVICES)

        def calm() -> bool:
            report.end = vitals_of(self._system, DEVICES) or report.end
            return report.end.fds > 0 and not report.leaks

        deadline = time.monotonic() + (IDLE_S if report.whole else CALM_S) * PATIENCE
        while not calm() and time.monotonic() < deadline:
            time.sleep(0.2)
        if not report.whole and report.end.job_processes > report.before.job_processes:
            report.notes.append("descriptors are not compared: idle job processes have some")
        checker = self._system.checker(self._seen)
        report.verdict = checker.verdict(BY_FAULT)
        report.outcomes = checker.outcomes()
        report.refused = sum(load.count("refused") for load in self._clients)


@contextmanager
def surroundings(
    directory: Path, notes: list[str]
) -> Iterator[tuple[Path | None, Clock | None]]:
    """A small disk and a clock of its own, where they can be had."""
    from _pytest.outcomes import Skipped

    with ExitStack() as stack:
        disk: Path | None = None
        clock: Clock | None = None
        try:
            disk = stack.enter_context(small_disk(directory / "disk", DISK_BYTES))
        except Skipped as reason:
            notes.append(f"no full disks: {reason}")
        try:
            clock = Clock(directory)
        except Skipped as reason:
            notes.append(f"no clock jumps: {reason}")
        yield disk, clock


def soak(scale: float, seed: int, directory: Path) -> Report:
    """Run it in a directory that exists and may be used up."""
    notes: list[str] = []
    with surroundings(directory, notes) as (disk, clock):
        environment = clock.environment() if clock else None
        with System(*OPTIONS, state_home=disk, environment=environment) as system:
            report = Soak(system, Plan.of(scale), seed, disk, clock).run()
            report.notes += notes
            (directory / "log").write_text(system.log())
            return report
