"""One simulated device: processes that make progress, take memory and run out of it."""

from dataclasses import dataclass, field

from .jobs import SimJob
from .physics import Law


@dataclass(slots=True, eq=False)
class Process:
    """One attempt of a job on a device. `done_s` counts seconds of work as if alone."""

    job: SimJob
    job_id: str
    attempt: int
    lease_bytes: int
    began_at: float = 0.0
    done_s: float = 0.0
    speed: float = 1.0
    used_bytes: int = 0
    steps_taken: int = 0

    @property
    def ended(self) -> bool:
        return self.steps_taken > len(self.job.steps)

    @property
    def next_s(self) -> float:
        """The work done at which it takes memory next, or ends."""
        if self.steps_taken < len(self.job.steps):
            return self.job.steps[self.steps_taken].progress * self.job.solo_s
        return self.job.solo_s


@dataclass(slots=True)
class Gpu:
    """Memory and processors shared by the processes on it, and by a stranger."""

    total_bytes: int
    law: Law
    foreign_bytes: int = 0
    processes: dict[str, Process] = field(default_factory=dict)
    _at: float = 0.0

    @property
    def used_bytes(self) -> int:
        """What our processes hold."""
        return sum(process.used_bytes for process in self.processes.values())

    @property
    def free_bytes(self) -> int:
        return self.total_bytes - self.foreign_bytes - self.used_bytes

    @property
    def utilisation(self) -> float:
        return sum(one.job.utilisation * one.speed for one in self.processes.values())

    def add(self, process: Process, now: float) -> None:
        self._advance(now)
        self.processes[process.job_id] = process
        self._set_speeds()

    def remove(self, process: Process, now: float) -> None:
        self._advance(now)
        del self.processes[process.job_id]
        self._set_speeds()

    def next_event(self) -> tuple[float, Process] | None:
        """When which process takes memory or ends, if the company stays as it is."""
        if not self.processes:
            return None
        waits = ((self._wait_s(one), one.job_id) for one in self.processes.values())
        wait_s, job_id = min(waits)
        return self._at + wait_s, self.processes[job_id]

    def step(self, process: Process, now: float) -> int:
        """Let a process take its next step; give the bytes it could not get, else 0."""
        self._advance(now)
        process.done_s = process.next_s  # exactly, whatever rounding says
        if process.steps_taken < len(process.job.steps):
            wanted = process.job.steps[process.steps_taken].used_bytes - process.used_bytes
            if wanted > self.free_bytes:
                return wanted
            process.used_bytes += wanted
        process.steps_taken += 1
        return 0

    def _wait_s(self, process: Process) -> float:
        return max(0.0, process.next_s - process.done_s) / process.speed

    def _advance(self, now: float) -> None:
        for process in self.processes.values():
            process.done_s += (now - self._at) * process.speed
        self._at = now

    def _set_speeds(self) -> None:
        members = list(self.processes.values())
        loads = [(one.job.utilisation, one.job.bandwidth) for one in members]
        for process, speed in zip(members, self.law.speeds(loads), strict=True):
            process.speed = speed
