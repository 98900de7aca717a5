"""A broker core with devices and one client around it. Every message takes the real wire."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from broker.core import BrokerCore
from broker.effects import Effect, Note, Send
from broker.jobs import Job
from broker.ledger import Lease, Ledger
from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.facts import JobRow
from grn_zmq.records import Begun, JobSpec, Outcome, Result, Run, Use
from tests.builders import (
    MIB,
    a_greet,
    a_hello,
    a_report,
    a_result,
    a_spec,
    an_id,
    an_outcome,
)
from tests.simulation.disk import SimDisk

EPOCH = 7
CLIENT = b"client"
SESSION = an_id(900)

M = TypeVar("M")


class Machine:
    """SIM(a, b, …): devices of so many MiB. `now` moves by a second with every event."""

    def __init__(
        self, *totals: int, max_jobs: int | None = None, settings: Settings | None = None
    ) -> None:
        self.settings = settings
        self.epoch = EPOCH
        self.disk = SimDisk()
        self.core = BrokerCore(EPOCH, pid=77, settings=settings)
        self.now = 0.0
        self.effects: list[Effect] = []
        self.all_effects: list[Effect] = []
        self._known = 10_000
        self.say(CLIENT, a_hello())
        for index, total in enumerate(totals):
            self.join(index, total, max_jobs=max_jobs)

    def commit(self) -> None:
        """End the turn: what was changed is kept from now on."""
        self.disk.write(self.core.take_batch())

    def crash(self) -> list[Effect]:
        """The broker dies with what it had not committed; the next one has nobody around it."""
        self.epoch += 1
        self.core = BrokerCore(self.epoch, pid=78, settings=self.settings)
        return self._after(self.core.restore(self.disk.kept(self.epoch), self.now))

    def restart(self) -> list[Effect]:
        """The broker dies right after a commit."""
        self.commit()
        return self.crash()

    def say(self, peer: bytes, message: wire.Message) -> list[Effect]:
        """Let a peer say something, a second after whatever came before."""
        self.now += 1.0
        received = wire.decode(wire.encode(message))
        return self._after(self.core.handle(peer, received, now=self.now))

    def lose(self, name: str) -> list[Effect]:
        self.now += 1.0
        return self._after(self.core.lose(name, now=self.now))

    def wait(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self._after(self.core.tick(now=self.now))

    def _after(self, effects: list[Effect]) -> list[Effect]:
        self.core.check()
        self.effects = effects
        self.all_effects += effects
        return effects

    def join(self, index: int, total: int, peer: bytes = b"", **changes: Any) -> None:
        """A worker greets and says what its device has."""
        self.say(peer or worker(index), a_greet(index, total, **changes))
        self.say(peer or worker(index), a_report())

    def submit(self, *specs: JobSpec, peer: bytes = CLIENT) -> None:
        self.say(peer, wire.Submit(specs))

    def start(self, number: int) -> None:
        job = self.job(number)
        begun = Begun(job.job_id, job.attempt, job.device, job.runs_stand_in, {})
        self.say(self.peer_of(job), wire.Started((begun,)))

    def finish(self, number: int, peak: int = 100, **changes: Any) -> None:
        """The attempt that the job has now ends, after a peak of so many MiB."""
        job = self.job(number)
        result = a_result(number, job.attempt, **{"peak_bytes": peak * MIB, **changes})
        self.say(self.peer_of(job), wire.Finished(self.epoch, (result,)))

    def say_result(self, index: int, result: Result) -> None:
        self.say(worker(index), wire.Finished(self.epoch, (result,)))

    def run(self, number: int, peak: int = 100, **changes: Any) -> None:
        self.start(number)
        self.finish(number, peak, **changes)

    def use(self, index: int, foreign: int = 0, idle: int = 0, **used: int) -> None:
        """Report a device; `j3=200` says that job 3 uses 200 MiB."""
        uses = tuple(
            Use(an_id(number), self.job(number).attempt, mib * MIB)
            for number, mib in ((int(name[1:]), mib) for name, mib in used.items())
        )
        report = a_report(foreign_bytes=foreign * MIB, idle_bytes=idle * MIB, uses=uses)
        self.say(worker(index), report)

    def know(
        self, mib: int, job_type: str = "train.py::fit", runs: int = 20, **by: Any
    ) -> None:
        """Known(n): the type was learned from 20 equal runs of n MiB."""
        for _ in range(runs):
            self._known += 1
            self.submit(a_spec(self._known, job_type=job_type, **by))
            self.run(self._known, peak=mib)

    def job(self, number: int) -> Job:
        return self.core.book.jobs[an_id(number)]

    def outcome(self, number: int) -> Outcome:
        outcome = self.job(number).outcome
        assert outcome is not None
        return outcome

    def peer_of(self, job: Job) -> bytes:
        return self.core.book.workers[job.worker].peer

    def ledger(self, index: int = 0) -> Ledger:
        return self.core.book.workers[an_id(800 + index)].ledger

    def lease(self, number: int) -> Lease:
        job = self.job(number)
        return self.core.book.workers[job.worker].ledger.leases[job.job_id]

    def devices(self, *numbers: int) -> list[str]:
        """Where these jobs are; empty for one that waits."""
        return [self.job(number).device for number in numbers]

    def placed(self, *numbers: int) -> list[bool]:
        return [device != "" for device in self.devices(*numbers)]

    def states(self, *numbers: int) -> list[str]:
        return [self.job(number).state.value for number in numbers]

    def row(self, number: int) -> JobRow:
        self.say(CLIENT, wire.AskJobs(self.job(number).number - 1, ended=True))
        return self.sent(wire.JobsAre)[0].rows[0]

    def why(self, number: int) -> str:
        return self.row(number).why

    def sent(self, kind: type[M], peer: bytes | None = None) -> list[M]:
        """The messages of this kind that the last event sent."""
        return sent(self.effects, kind, peer)

    def runs(self) -> list[Run]:
        """Every run that was ever assigned."""
        return [run for one in sent(self.all_effects, wire.Assign) for run in one.runs]

    def notes(self) -> list[str]:
        return [effect.text for effect in self.effects if isinstance(effect, Note)]


def worker(index: int) -> bytes:
    return f"worker {index}".encode()


def sent(effects: Iterable[Effect], kind: type[M], peer: bytes | None = None) -> list[M]:
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send)
        and isinstance(effect.message, kind)
        and peer in (None, effect.peer)
    ]


def fetched(effects: Iterable[Effect]) -> list[tuple[str, ...]]:
    """Of which jobs the payload is to be added from the journal, message by message."""
    return [one.fetch for one in effects if isinstance(one, Send) and one.fetch]


def told(outcome: Outcome) -> Outcome:
    """The part of an outcome that does not depend on the clock."""
    return replace(outcome, wait_s=0.0, run_s=0.0)


def an_outcome_now(number: int = 1, **changes: Any) -> Outcome:
    return told(an_outcome(number, **changes))
