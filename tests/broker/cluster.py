"""Devices whose memory is real, around a core: jobs that take more than there is fail."""

from dataclasses import dataclass
from typing import Any

from broker.jobs import LEASED, State
from grn_zmq.records import Use
from tests.broker.machine import Machine, worker
from tests.builders import MIB, a_report, a_spec


@dataclass
class Life:
    """What a job really does: it takes `mib` after `grows_s`, and ends after `lasts_s`."""

    mib: int
    lasts_s: float
    grows_s: float = 0.0


class Cluster:
    """Devices whose memory is real: who allocates on a full device runs out of memory."""

    def __init__(self, machine: Machine, *totals: int) -> None:
        self.machine = machine
        self.totals = totals
        self.lives: dict[int, Life] = {}
        self.begun: dict[tuple[int, int], float] = {}
        self.ooms: dict[int, int] = {}
        self.most_at_once = 0

    def submit(self, numbers: range, life: Life, **options: Any) -> None:
        self.lives.update(dict.fromkeys(numbers, life))
        self.machine.submit(*(a_spec(number, **options) for number in numbers))

    def work(self, most_s: float = 5000.0) -> None:
        """Let everything run to its end."""
        end = self.machine.now + most_s
        while any(self.machine.job(number).live for number in self.lives):
            assert self.machine.now < end, "jobs are left over"
            for index, total in enumerate(self.totals):
                self._turn(index, total)
            self.machine.wait(0.1)

    def _turn(self, index: int, total: int) -> None:
        machine = self.machine
        here = [n for n in self.lives if machine.devices(n) == [f"host:{index}"]]
        here = [n for n in here if machine.job(n).state in LEASED]
        self.most_at_once = max(self.most_at_once, len(here))
        used: dict[int, int] = {}
        for number in here:
            job, life = machine.job(number), self.lives[number]
            if job.state is State.ASSIGNED:
                machine.start(number)
            began = self.begun.setdefault((number, job.attempt), machine.now)
            lasted_s = machine.now - began
            wants = life.mib if lasted_s >= life.grows_s else life.mib // 10
            left = total - sum(used.values())
            if wants > left:
                self.ooms[number] = self.ooms.get(number, 0) + 1
                asked = (wants - life.mib // 10) * MIB
                machine.finish(number, life.mib // 10, outcome="oom", asked_bytes=asked)
                continue
            used[number] = wants
            if lasted_s >= life.lasts_s:
                machine.finish(number, life.mib, run_s=life.lasts_s)
                del used[number]
        self._report(index, used)

    def _report(self, index: int, used: dict[int, int]) -> None:
        uses = tuple(
            Use(self.machine.job(number).job_id, self.machine.job(number).attempt, mib * MIB)
            for number, mib in used.items()
        )
        self.machine.say(worker(index), a_report(uses=uses))

    def outcomes(self) -> set[str]:
        return {self.machine.outcome(number).outcome for number in self.lives}

    def extra_attempts(self) -> list[int]:
        return [self.machine.outcome(number).attempts - 1 for number in self.lives]


def a_cluster(*totals: int) -> Cluster:
    return Cluster(Machine(*totals), *totals)
