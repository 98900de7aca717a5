"""In whatever order things happen to a train, what began has an end, what did not goes back."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from grn_zmq import wire
from grn_zmq.records import AttemptId
from grn_zmq.tails import Tail
from tests.builders import MIB, a_run, an_id
from tests.workers.acting import CONTEXT, FUNCTION, a_return
from workers.core import WorkerCore
from workers.effects import Effect, FeedTrain, Keep, Reply, TakeBack
from workers.events import Gone
from workers.runs import Member
from workers.spoollog import Record, StartRecord, TrainRecord, begun_part, outstanding


class Trains(RuleBasedStateMachine):
    """A worker, a job process with the tokens of its packet, and a broker that keeps count."""

    def __init__(self) -> None:
        super().__init__()
        self.core = WorkerCore(on_host=True, total_bytes=1000 * MIB)
        self.now = 0.0
        self.jobs = 0
        self.epoch = 0
        self.log: list[Record] = []
        self.assigned: set[str] = set()
        self.begun: list[str] = []
        self.back: set[str] = set()
        self.ended: set[str] = set()
        self.calls: list[Member] = []
        self.tokens = self.key = 0
        self.mark = {0: (0, 0)}
        self.greet()
        self.core.handle(wire.Blobs((FUNCTION, CONTEXT)), 0.0)

    def do(self, effects: list[Effect]) -> None:
        while effects:
            records = [one.record for one in effects if isinstance(one, Keep)]
            self.log += records
            more: list[Effect] = []
            for one in effects:
                more += self._carry_out(one)
            if any(isinstance(one, StartRecord | TrainRecord) for one in records):
                more += self.core.kept(self.now)
            effects = more

    def _carry_out(self, effect: Effect) -> list[Effect]:
        match effect:
            case FeedTrain(key, calls=calls):
                assert not self.calls, "fed a process that has calls"
                self.core.ready(key, self.now)
                self.key, self.calls, self.tokens = key, list(calls), len(calls)
                self.number, self.slot = effect.train, effect.slot
            case TakeBack():
                return self.take_back()
            case Reply(message=message):
                self._hear(message)
        return []

    def take_back(self) -> list[Effect]:
        taken, self.tokens = self.tokens, 0
        self.calls = self.calls[: len(self.calls) - taken]
        return self.core.trains.taken_back(self.key, taken, self.now)

    def _hear(self, message: wire.Message) -> None:
        match message:
            case wire.GivenBack(attempts=attempts):
                self._goes_back({one.job_id for one in attempts})
            case wire.Declined(attempts=attempts):
                self._goes_back({one.job_id for one in attempts})
            case wire.Returned(job_ids=job_ids):
                self._end(*job_ids)
            case wire.Finished(results=results):
                for one in results:
                    assert one.outcome == "cancelled" or one.job_id in self.begun
                self._end(*(one.job_id for one in results))

    def _goes_back(self, jobs: set[str]) -> None:
        assert jobs <= self.assigned
        assert not jobs & set(self.begun), "gave back what has begun"
        self.back |= jobs

    def _end(self, *jobs: str) -> None:
        assert not self.back & set(jobs), "ended what was given back"
        self.ended |= set(jobs)

    @precondition(lambda self: not self.core.runs and not self.calls)
    @rule(length=st.integers(2, 5))
    def assign(self, length: int) -> None:
        ids = [an_id(self.jobs + one) for one in range(1, length + 1)]
        numbers = tuple(range(1, length))
        self.jobs += length
        tail = Tail(tuple(ids[1:]), (1,) * (length - 1), numbers, (b"",) * (length - 1))
        self.assigned |= set(ids)
        run = replace(a_run(1), job_id=ids[0], tail=tail)
        self.do(self.core.handle(wire.Assign(self.epoch, (run,)), self.now))

    @precondition(lambda self: self.tokens and len(self.calls) == self.tokens)
    @rule()
    def call_begins(self) -> None:
        self.tokens -= 1
        self.begun.append(self.calls[0].job_id)
        self.mark = {self.slot: (self.number, self.calls[0].place + 1)}

    @precondition(lambda self: len(self.calls) > self.tokens)
    @rule(how=st.sampled_from(["plain", "plain", "full", "unclean"]))
    def call_ends(self, how: str) -> None:
        self.now += 0.01
        if how == "plain":
            self.calls.pop(0)
            self.do(self.core.trains.values(self.key, [0.01], [b"v"], self.now))
        elif how == "full":
            self.calls.pop(0)
            self.do(self.core.returned(self.key, a_return(outcome="failed"), self.now))
        else:
            self.do(self.core.returned(self.key, a_return(reusable=False), self.now))
            self.calls.clear()
            self.do(self.core.gone(self.key, Gone(0, None), self.now))

    @precondition(lambda self: self.calls)
    @rule()
    def process_dies(self) -> None:
        taken, self.tokens = self.tokens, 0
        self.calls.clear()
        self.do(self.core.trains.taken_back(self.key, taken, self.now, over=True))
        if self.key in self.core.processes:
            first = self.core.run_in(self.key)
            if first and first.run.job_id not in self.begun:
                self.begun.append(first.run.job_id)  # its start was told: it counts as begun
            self.do(self.core.gone(self.key, Gone(None, 9), self.now))

    @rule(back=st.integers(0, 6))
    def cancel(self, back: int) -> None:
        one = AttemptId(an_id(max(1, self.jobs - back)), 1)
        self.do(self.core.handle(wire.End(self.epoch, "interrupt", (one,)), self.now))

    @rule()
    def recall(self) -> None:
        self.do(self.core.handle(wire.Recall(self.epoch), self.now))

    @rule(passed=st.sampled_from([0.06, 0.3, 6.0]))
    def time_passes(self, passed: float) -> None:
        self.now += passed
        self.do(self.core.tick(self.now))

    @rule()
    def greet(self) -> None:
        self.core.fence.close()
        self.do(self.core.trains.recall())
        number, inventory = self.core.greet()
        held = {one.job_id for one in inventory}
        unheard = self.assigned - self.ended - self.back - held
        assert not unheard & set(self.begun), "forgot what has begun"
        self.back |= unheard  # the broker places them anew
        self.epoch += 1
        welcome = wire.Welcome(wire.PROTOCOL, self.epoch, 1, greeting=number)
        self.do(self.core.handle(welcome, self.now))

    @rule()
    def record(self) -> None:
        done = tuple(AttemptId(*one) for one in self.core.unrecorded)
        self.do(self.core.handle(wire.Recorded(self.epoch, done), self.now))

    @invariant()
    def nothing_begins_twice_or_after_it_went_back(self) -> None:
        assert len(self.begun) == len(set(self.begun))

    @invariant()
    def everything_is_here_or_told(self) -> None:
        held = {one.job_id for one in self.core.inventory}
        waiting = set(self.core.trains.of_job)
        assert self.assigned == held | waiting | self.ended | self.back

    @invariant()
    def the_next_incarnation_knows_what_began(self) -> None:
        left = outstanding([begun_part(one, self.mark) for one in self.log])
        interrupted = {job_id for job_id, _ in left.interrupted}
        assert interrupted <= set(self.begun), "would call lost what never began"
        assert set(self.begun) - self.ended <= interrupted


Trains.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestTrains = Trains.TestCase
