"""One run: the broker core, simulated workers and one client under a simulated clock."""

from collections import deque
from functools import partial
from random import Random
from typing import Final

from grn_zmq import wire
from grn_zmq.records import Outcome, Run

from ..core import BrokerCore
from ..effects import Effect, Peer, Send
from ..profiles import Profiles
from . import messages
from .clock import Clock
from .gpu import Gpu, Process
from .jobs import Stream
from .policies import Policy
from .story import Life, Promise, Story
from .worker import SimWorker

CLIENT: Final[Peer] = b"client"
# Time passes by itself only while jobs wait: faster while a type is being measured.
MEASURING_TICK_S: Final = 10.0
WAITING_TICK_S: Final = 300.0
# Jobs that still wait when nothing has run for so long will wait for ever.
STUCK_S: Final = 3600.0


class Engine:
    """A stream under a policy. `profiles` are what the core believes, and learns into."""

    def __init__(self, stream: Stream, policy: Policy, profiles: Profiles, rng: Random) -> None:
        self.core = BrokerCore(messages.EPOCH, 1, settings=policy.settings, profiles=profiles)
        self._policy = policy
        self._describe = policy.describing(stream)
        self._clock = Clock()
        self._said: deque[tuple[Peer, wire.Message]] = deque()
        lives = [Life(job) for job in stream.jobs]
        curves = [[(0.0, 0)] for _ in range(stream.devices)]
        self._story = Story(stream, policy.name, lives, curves)
        self._workers = [self._worker(index, rng) for index in range(stream.devices)]
        self._lives: dict[str, Life] = {}
        self._to_come = len(stream.jobs)
        self._unended = len(stream.jobs)
        self._ticking = False

    def _worker(self, index: int, rng: Random) -> SimWorker:
        stream = self._story.stream
        gpu = Gpu(stream.device_bytes, stream.law)
        say = partial(self._say, messages.peer_of(index))
        return SimWorker(index, gpu, self._story, self._clock, rng, say)

    def run(self) -> Story:
        """Let it all happen, until every job has ended or waits for ever."""
        self._say(CLIENT, messages.hello())
        for worker in self._workers:
            worker.greet(self._policy.max_jobs)
        for life in self._story.lives:
            self._clock.at(life.job.arrival_s, partial(self._arrive, life))
        self._listen()
        while self._unended and self._clock.advance():
            self._story.events += 1
            self._listen()
        return self._story

    def _say(self, peer: Peer, message: wire.Message) -> None:
        self._said.append((peer, message))

    def _listen(self) -> None:
        """Hand what was said to the core, and do what it wants, until all is quiet."""
        while self._said:
            peer, message = self._said.popleft()
            self._carry_out(self.core.handle(peer, message, self._clock.now))
        if not self._ticking and self.core.book.waiting:
            self._ticking = True
            pause_s = MEASURING_TICK_S if messages.measures(self.core) else WAITING_TICK_S
            self._clock.at(self._clock.now + pause_s, self._tick)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            match effect.message:
                case wire.Assign(_, runs):
                    for run in runs:
                        self._start(self._workers[messages.index_of(effect.peer)], run)
                case wire.Ended(outcomes):
                    for outcome in outcomes:
                        self._ended(outcome)
                case wire.End() | wire.Refused():
                    raise AssertionError(f"not simulated: {effect.message}")

    def _start(self, worker: SimWorker, run: Run) -> None:
        life = self._lives[run.job_id]
        lease = messages.lease_of(self.core, run.job_id)
        promise = Promise(lease.lease_bytes, life.job.peak_bytes, lease.measuring)
        self._story.promises.append(promise)
        worker.start(life, Process(life.job, run.job_id, run.attempt, run.lease_bytes))

    def _arrive(self, life: Life) -> None:
        self._to_come -= 1
        self._submit(life)

    def _submit(self, life: Life) -> None:
        life.submissions += 1
        job_id = f"{life.submissions:08x}{life.job.number:024x}"
        self._lives[job_id] = life
        job_type, by = self._describe(life.job)
        if life.submissions > 1 and self._policy.resubmits_alone:
            by = {**by, "whole-device": True}
        retries = self._policy.oom_retries
        spec = messages.spec(job_id, life.job, (job_type, by), retries)
        self._say(CLIENT, wire.Submit((spec,)))

    def _ended(self, outcome: Outcome) -> None:
        life = self._lives[outcome.job_id]
        life.succeeded = outcome.outcome == "succeeded"
        life.failures += not life.succeeded
        if not life.succeeded and life.submissions <= self._policy.resubmits:
            self._submit(life)
            return
        life.ended_s = self._clock.now
        self._unended -= 1

    def _tick(self) -> None:
        self._ticking = False
        busy_at = max(worker.busy_at for worker in self._workers)
        idle = not any(worker.gpu.processes for worker in self._workers)
        if idle and not self._to_come and self._clock.now - busy_at > STUCK_S:
            self._unended = 0  # the rest would wait for ever; it counts as dropped
            return
        self._carry_out(self.core.tick(self._clock.now))
