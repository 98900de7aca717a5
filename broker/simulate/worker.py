"""A simulated worker: its device, the processes on it, and what it tells the broker."""

import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from grn_zmq import wire

from . import messages
from .clock import Clock
from .gpu import Gpu, Process
from .story import Life, Story

# What a job pays to be started again, beside the work it lost.
RESTART_S: Final = 20.0
# Workers look at their device once a second; what happens in between is seen then.
SAMPLE_S: Final = 1.0
SAMPLE_NOISE: Final = 0.002
# A stranger comes and goes about this often, and takes up to this share of a device.
FOREIGN_S: Final = 1800.0
FOREIGN_SHARE: Final = 0.4

Say = Callable[[wire.Message], None]


class SimWorker:
    """Runs what it is assigned, as physics wants it."""

    def __init__(
        self, index: int, gpu: Gpu, story: Story, clock: Clock, rng: Random, say: Say
    ) -> None:
        self.index = index
        self.gpu = gpu
        self.busy_at = 0.0
        self._story = story
        self._clock = clock
        self._rng = rng
        self._say = say
        self._forecasts = 0
        self._sample_due = False

    def greet(self, max_jobs: int | None) -> None:
        facts = messages.device_facts(self.index, self.gpu.total_bytes)
        self._say(messages.greet(facts, max_jobs))
        self._sample()
        if self._story.stream.foreign:
            self._clock.at(self._rng.expovariate(1 / FOREIGN_S), self._stranger)

    def start(self, life: Life, process: Process) -> None:
        """Start a process; after a first attempt that takes its time."""
        pause_s = RESTART_S if life.attempts else 0.0
        life.attempts += 1
        if math.isnan(life.first_start_s):
            life.first_start_s = self._clock.now
        self._clock.at(self._clock.now + pause_s, partial(self._begin, process))

    def _begin(self, process: Process) -> None:
        process.began_at = self._clock.now
        self.gpu.add(process, self._clock.now)
        self._say(messages.started(self.index, process))
        self._step(process)

    def _step(self, process: Process) -> None:
        """The process takes memory, or ends, or dies for want of it."""
        self.busy_at = now = self._clock.now
        missing = self.gpu.step(process, now)
        if missing:
            self._note_kill(process, missing)
        if missing or process.ended:
            self.gpu.remove(process, now)
            outcome = "oom" if missing else "succeeded"
            self._say(messages.finished(process, outcome, missing, now))
        self._look_ahead()

    def _note_kill(self, process: Process, missing: int) -> None:
        inside = process.used_bytes + missing <= process.lease_bytes
        self._story.kills += 1
        self._story.innocent_kills += inside
        self._story.wasted_s += process.done_s + RESTART_S

    def _look_ahead(self) -> None:
        """Memory or company changed: find out again what is next; the next sample sees it."""
        used_bytes = self.gpu.used_bytes + self.gpu.foreign_bytes
        self._story.memory[self.index].append((self._clock.now, used_bytes))
        self._forecasts += 1
        if coming := self.gpu.next_event():
            when, process = coming
            self._clock.at(when, partial(self._step_if, self._forecasts, process))
        if not self._sample_due:
            self._sample_due = True
            due = math.floor(self._clock.now / SAMPLE_S + 1) * SAMPLE_S
            self._clock.at(due, self._sample)

    def _step_if(self, forecast: int, process: Process) -> None:
        if forecast == self._forecasts:
            self._step(process)

    def _sample(self) -> None:
        self._sample_due = False
        noise = {
            job_id: 1.0 + self._rng.uniform(-SAMPLE_NOISE, SAMPLE_NOISE)
            for job_id in self.gpu.processes
        }
        self._say(messages.report(self.gpu, noise))

    def _stranger(self) -> None:
        """Somebody else takes memory of the device, or leaves it."""
        if self.gpu.foreign_bytes:
            self.gpu.foreign_bytes = 0
        else:
            wanted = int(self._rng.uniform(0.05, FOREIGN_SHARE) * self.gpu.total_bytes)
            self.gpu.foreign_bytes = min(wanted, self.gpu.free_bytes)
        self._look_ahead()
        pause_s = self._rng.expovariate(1 / FOREIGN_S)
        self._clock.at(self._clock.now + pause_s, self._stranger)
