"""Whatever happens, in whatever order: the promises of the ledger and the queue hold."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from broker.jobs import LEASED, Job, State
from grn_zmq import wire
from grn_zmq.records import Use
from tests.broker.machine import CLIENT, Machine, worker
from tests.builders import MIB, a_device, a_report, a_spec, an_id

TOTALS = (1000, 600)
# How many rounds of "all that runs ends" a queue may need; each starts at least one job.
MOST_ROUNDS = 200

T = TypeVar("T")

some = st.integers(0, 20)
mib = st.integers(0, 1200)
seconds = st.sampled_from([0.5, 10.0, 100.0, 1000.0])
# Enough for a line, for names, and for values that have broken arithmetic before.
arguments = st.sampled_from(
    [
        {},
        {},
        {},
        {"n": 8},
        {"n": 64},
        {"n": 512},
        {"n": 5e-324},
        {"net": "a", "n": 8},
        {"n": True},
    ]
)


class AnyOrder(RuleBasedStateMachine):
    """Every step is a message a client or a worker may send, or the passing of time."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.submitted = 0
        self.foreign = [0] * len(TOTALS)
        self.lives = [0] * len(TOTALS)

    @initialize(one_model=st.booleans(), most=st.sampled_from([None, 2]))
    def workers_join(self, one_model: bool, most: int | None) -> None:
        self.one_model, self.most = one_model, most
        for index in range(len(TOTALS)):
            self.join(index)

    def join(self, index: int) -> None:
        """A worker comes, or another after the one that died."""
        self.lives[index] += 1
        model = "model" if self.one_model else f"model {index}"
        total = TOTALS[index]
        self.machine.join(
            index,
            total,
            incarnation=an_id(1000 * self.lives[index] + index),
            device=a_device(index, total, device_class=model),
            max_jobs=self.most,
        )

    @rule(
        job_type=st.sampled_from("ab"),
        by=arguments,
        count=st.integers(1, 4),
        policy=st.sampled_from(["spread", "pack"]),
        memory=st.sampled_from([0, 0, 300, 2000]),
        priority=st.sampled_from([0, 0, 1]),
        oom_retries=st.integers(0, 2),
        has_stand_in=st.booleans(),
        version=st.sampled_from(["", "1", "2"]),
        enforce=st.booleans(),
        nested=st.booleans(),
        which=some,
    )
    def submit(self, count: int, memory: int, nested: bool, which: int, **options: Any) -> None:
        """Jobs of the client, or of one of its jobs that runs."""
        numbers = range(self.submitted + 1, self.submitted + 1 + count)
        self.submitted += count
        options["memory_bytes"] = memory * MIB
        if nested and self.leased():
            options["parent"] = one_of(self.leased(), which).job_id
        self.machine.submit(*(a_spec(number, **options) for number in numbers))

    @precondition(lambda self: self.leased())
    @rule(which=some)
    def start(self, which: int) -> None:
        job = one_of(self.leased(), which)
        if job.state is State.ASSIGNED:
            self.machine.start(number_of(job))

    @precondition(lambda self: self.leased())
    @rule(
        which=some,
        outcome=st.sampled_from(
            ["succeeded", "succeeded", "failed", "killed", "oom", "oom", "oom"]
        ),
        peak=mib,
        asked=st.sampled_from([0, 0, 200]),
        run_s=seconds,
        seen=st.booleans(),
    )
    def finish(self, which: int, outcome: str, peak: int, asked: int, **facts: Any) -> None:
        job = one_of(self.leased(), which)
        facts["asked_bytes"] = asked * MIB if outcome == "oom" else 0
        self.machine.finish(number_of(job), peak, outcome=outcome, **facts)

    @rule(index=st.integers(0, len(TOTALS) - 1), foreign=mib, idle=mib, used=mib)
    def report(self, index: int, foreign: int, idle: int, used: int) -> None:
        self.foreign[index] = foreign
        self.say_report(index, used, idle)

    def say_report(self, index: int, used: int = 0, idle: int = 0) -> None:
        jobs = [job for job in self.leased() if job.device == f"host:{index}"]
        uses = tuple(Use(job.job_id, job.attempt, used * MIB) for job in jobs)
        message = a_report(
            foreign_bytes=self.foreign[index] * MIB, idle_bytes=idle * MIB, uses=uses
        )
        self.machine.say(worker(index), message)

    @rule(index=st.integers(0, len(TOTALS) - 1))
    def lose_worker(self, index: int) -> None:
        self.machine.lose(an_id(1000 * self.lives[index] + index))
        self.join(index)

    @precondition(lambda self: self.submitted)
    @rule(which=some)
    def cancel(self, which: int) -> None:
        number = one_of(range(1, self.submitted + 1), which)
        self.machine.say(CLIENT, wire.Cancel((an_id(number),), interrupt=False))

    @rule(job_type=st.sampled_from("ab"))
    def forget(self, job_type: str) -> None:
        self.machine.say(CLIENT, wire.ForgetProfiles((job_type,)))

    @rule(waited_s=seconds)
    def wait(self, waited_s: float) -> None:
        self.machine.wait(waited_s)

    @rule()
    def nobody_waits_without_a_reason(self) -> None:
        """After a pass, whoever still waits would be told to wait: nobody was passed over."""
        for index in range(len(TOTALS)):
            self.say_report(index)
        self.machine.wait(0.1)

        assert all(self.whys())

    @invariant()
    def estimates_are_finite_and_positive(self) -> None:
        book = self.machine.core.book
        for cell_id, _ in book.profiles:
            for total in TOTALS:
                facts = a_device(0, total, device_class=cell_id.device_class)
                found = book.profiles.estimate((cell_id.job_type, cell_id.by), facts)
                if found is None:
                    continue
                assert found.lease_bytes > 0
                assert math.isfinite(found.noise_bytes)
                assert math.isfinite(found.bias_bytes)
                assert min(found.noise_bytes, found.bias_bytes, found.sure_bytes) >= 0

    @invariant()
    def every_lease_is_worth_something(self) -> None:
        for job in self.leased():
            # A job that submitted jobs waits for them, and keeps only what it uses.
            lease = self.machine.lease(number_of(job))
            assert job.submitted_jobs or lease.lease_bytes > 0, lease

    def teardown(self) -> None:
        """Strangers leave and all that runs ends well: then nothing is left waiting."""
        self.foreign = [0] * len(TOTALS)
        for _ in range(MOST_ROUNDS):
            for index in range(len(TOTALS)):
                self.say_report(index)
            self.machine.wait(1.0)
            if not self.machine.core.book.waiting and not self.leased():
                break
            assert self.leased(), f"every device is idle, yet: {self.whys()}"
            for job in self.leased():
                outcome = "cancelled" if job.cancelling else "succeeded"
                self.machine.finish(number_of(job), peak=300, outcome=outcome)

        assert all(not job.live for job in self.machine.core.book.jobs.values())
        for index, ledger in enumerate(self.ledgers()):
            assert ledger.leases == {}
            assert ledger.free_bytes() == TOTALS[index] * MIB

    def whys(self) -> list[str]:
        """What each class waits for."""
        ordered = list(self.machine.core.book.waiting.ordered())
        return [self.machine.why(number_of(waiting.head)) for _, waiting in ordered]

    def leased(self) -> list[Job]:
        jobs = self.machine.core.book.jobs.values()
        return [job for job in jobs if job.state in LEASED]

    def ledgers(self) -> Iterator[Any]:
        workers = self.machine.core.book.workers.values()
        yield from sorted((one.ledger for one in workers), key=lambda one: one.facts.index)


def one_of(items: Sequence[T], which: int) -> T:
    return items[which % len(items)]


def number_of(job: Job) -> int:
    return int(job.job_id, 16)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,  # the same stories every time; look for new ones by hand
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
