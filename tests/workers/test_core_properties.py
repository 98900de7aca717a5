"""In whatever order things happen, no attempt starts twice and none is forgotten."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from grn_zmq import wire
from grn_zmq.records import AttemptId
from tests.builders import MIB, a_run
from tests.workers.acting import CONTEXT, FUNCTION, a_return
from workers.core import WorkerCore
from workers.effects import Effect, Feed, Keep, Reply, WatchCaller
from workers.events import Gone
from workers.spoollog import Attempt, Record, StartRecord, outstanding

JOBS = st.integers(1, 2)
ATTEMPTS = st.integers(1, 2)


class Worker(RuleBasedStateMachine):
    """A worker with a spool that survives it, and a broker that may say anything."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Record] = []
        self.starts: list[Attempt] = []
        self.recorded: set[Attempt] = set()
        self.accepted: set[Attempt] = set()
        self.writable = True
        self.epoch = 0
        self.now = 0.0
        self.core = self._new()

    def _new(self) -> WorkerCore:
        left = outstanding(self.log)
        return WorkerCore(on_host=True, total_bytes=1000 * MIB, left=left)

    def do(self, effects: list[Effect]) -> None:
        """What the shell does: write, then the rest, then let begin what was written."""
        while effects:
            records = [one.record for one in effects if isinstance(one, Keep)]
            kept = self.writable
            if kept:
                self.log += records
            for one in effects:
                self._carry_out(one)
            if records and not kept:
                effects = self.core.not_kept("disk full")
            elif any(isinstance(one, StartRecord) for one in records):
                effects = self.core.kept(self.now)
            else:
                effects = []

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Feed(run=run):
                self._starts(run.job_id, run.attempt)
            case WatchCaller(job_id=job_id):
                self._starts(job_id, self.core.runs[job_id].run.attempt)
            case Reply():
                assert self.core.fence.welcomed, "said something to nobody"

    def _starts(self, *attempt: Any) -> None:
        assert attempt in self.accepted, "started what the greeting did not list"
        self.starts.append(attempt)

    def handle(self, message: wire.Message) -> None:
        self.now += 0.1
        before = {(one.job_id, one.attempt) for one in self.core.inventory}
        effects = self.core.handle(message, self.now)
        after = {(one.job_id, one.attempt) for one in self.core.inventory}
        if not self.core.fence.welcomed:
            assert after <= before, "took an attempt while it was not welcomed"
        self.accepted |= after
        self.do(effects)

    @initialize()
    def begin(self) -> None:
        self.greet()
        self.welcome(behind=0, next_epoch=True)
        self.blobs()

    @rule()
    def greet(self) -> None:
        self.core.greet()

    @rule(behind=st.integers(0, 1), next_epoch=st.booleans())
    def welcome(self, behind: int, next_epoch: bool) -> None:
        fence = self.core.fence
        before, number = fence.welcomed, fence.greeting - behind
        if number > 0:
            epoch = self.epoch + next_epoch
            self.handle(wire.Welcome(wire.PROTOCOL, epoch, 1, greeting=number))
        if fence.welcomed and not before:
            assert not behind, "believed the answer to an older greeting"
            self.epoch = fence.epoch

    @rule(job=JOBS, attempt=ATTEMPTS, stale=st.sampled_from([0, 0, 0, 1]), inline=st.booleans())
    def assign(self, job: int, attempt: int, stale: int, inline: bool) -> None:
        run = a_run(job, attempt=attempt)
        if (run.job_id, attempt) in self.recorded:
            return  # no broker places an attempt again whose end it has recorded
        if inline:
            run = a_run(job, attempt=attempt, kind="inline", function="", context="")
        self.handle(wire.Assign(self.epoch - stale, (run,)))

    @rule()
    def blobs(self) -> None:
        self.handle(wire.Blobs((FUNCTION, CONTEXT)))

    @rule(job=JOBS, attempt=ATTEMPTS, how=st.sampled_from(["interrupt", "kill"]))
    def end(self, job: int, attempt: int, how: str) -> None:
        one = (a_run(job).job_id, attempt)
        interrupted = one in self.core.interrupted
        self.handle(wire.End(self.epoch, how, (AttemptId(*one),)))
        if interrupted and one not in self.core.interrupted:
            self.recorded.add(one)  # the broker has decided about it

    @precondition(lambda self: self.core.unrecorded or self.core.interrupted)
    @rule()
    def record(self) -> None:
        done = [*self.core.unrecorded, *self.core.interrupted]
        ids = tuple(AttemptId(*one) for one in done)
        self.handle(wire.Recorded(self.epoch, ids))
        if self.core.fence.counts(self.epoch):
            self.recorded |= set(done)

    @precondition(lambda self: self.core.processes)
    @rule(clean=st.booleans())
    def job_ends(self, clean: bool) -> None:
        self.now += 0.1
        key = min(self.core.processes)
        if clean and self.core.processes[key].job_id:
            self.do(self.core.returned(key, a_return(), self.now))
        else:
            self.do(self.core.gone(key, Gone(None, 9), self.now))

    @rule(passed=st.sampled_from([0.1, 5.0, 70.0]))
    def time_passes(self, passed: float) -> None:
        self.now += passed
        self.do(self.core.tick(self.now))

    @rule(writable=st.booleans())
    def disk(self, writable: bool) -> None:
        self.writable = writable
        if writable and self.core.declining:
            self.core.can_keep()

    @precondition(lambda self: self.writable)
    @rule()
    def crash(self) -> None:
        """kill -9: what is in the log is all the next incarnation has."""
        begun = {one for one in self.starts if one not in self.recorded}
        held_before = {(one.job_id, one.attempt) for one in self.core.inventory}
        self.core = self._new()
        self.accepted = {(one.job_id, one.attempt) for one in self.core.inventory}
        assert begun & held_before <= self.accepted, "forgot what may have run"

    @invariant()
    def nothing_starts_twice(self) -> None:
        assert len(self.starts) == len(set(self.starts))

    @invariant()
    def whoever_began_is_answered_for(self) -> None:
        held = {(one.job_id, one.attempt) for one in self.core.inventory}
        assert set(self.starts) - self.recorded <= held


Worker.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
TestWorker = Worker.TestCase
