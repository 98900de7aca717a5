"""Simulated clients and workers: they do what real ones do, and what those do on bad days."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grn_zmq import wire
from grn_zmq.records import AttemptId, Begun, JobSpec, Piece, Released, Result, Run, Use
from tests.builders import MIB, a_greet, a_result, a_spec
from tests.simulation.oracle import of_result
from tests.simulation.stage import BLOBS, NEEDS, OUTCOMES, Slot

if TYPE_CHECKING:
    from tests.simulation.world import World


class Actor:
    """Somebody with a connection to the broker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.alive = True
        self.welcomed = False
        self.inbox: deque[wire.Message] = deque()
        self.outbox: deque[wire.Message] = deque()
        self.said: deque[wire.Message] = deque(maxlen=30)
        self.peer = world.connect(self)

    def say(self, message: wire.Message) -> None:
        self.outbox.append(message)
        self.said.append(message)

    def reconnect(self) -> None:
        """The connection breaks: what was on the way may be lost, late or still unread.

        Not in the middle of an inline job: its start and its release are told only once.
        """
        if self.has_inline():
            return
        if self.rng.random() < 0.5:
            late = [one for one in self.outbox if not isinstance(one, wire.Hello | wire.Greet)]
            self.world.strays += [(self.peer, message) for message in late]
        self.outbox.clear()
        if self.rng.random() < 0.5:
            self.inbox.clear()
        self.welcomed = False
        self.peer = self.world.connect(self)
        self.greet()

    def has_inline(self) -> bool:
        raise NotImplementedError

    def greet(self) -> None:
        raise NotImplementedError

    def read(self) -> None:
        raise NotImplementedError


class SimClient(Actor):
    """A program that submits, or the process of a job that does, with that job as parent."""

    def __init__(self, world: World, parent: str = "", depth: int = 0) -> None:
        super().__init__(world)
        self.session = world.new_id()
        self.pid = 1000 + len(world.clients)
        self.parent = parent
        self.depth = depth
        self.submitted: dict[str, JobSpec] = {}
        self.unaccepted: dict[str, JobSpec] = {}
        self.waiting: set[str] = set()
        self.attached: set[str] = set()
        self.contradicted: set[str] = set()
        self.releases: list[tuple[str, int]] = []
        self.greet()

    def greet(self) -> None:
        self.say(wire.Hello(wire.PROTOCOL, self.session, self.pid))

    def read(self) -> None:
        message = self.inbox.popleft()
        match message:
            case wire.Welcome():
                self.welcomed = True
                if self.unaccepted:
                    self.say(wire.Submit(tuple(self.unaccepted.values())))
                if self.attached:
                    self.say(wire.Attach(tuple(self.attached)))
            case wire.Accepted(jobs):
                for one in jobs:
                    assert one.job_id in self.submitted, "told of a job of somebody else"
                    self.unaccepted.pop(one.job_id, None)
            case wire.Want(digests):
                self.say(wire.Blobs(tuple(BLOBS[digest] for digest in digests)))
            case wire.Started(runs):
                inline = [one for one in runs if self._is_inline(one.job_id)]
                self.releases += [(one.job_id, one.attempt) for one in inline]
            case wire.Ended(outcomes):
                ended = tuple(outcome.job_id for outcome in outcomes)
                self.waiting.difference_update(ended)
                self.attached.difference_update(ended)
                for job_id in ended:  # an answer, too: it was cancelled by somebody
                    self.unaccepted.pop(job_id, None)
                if self.rng.random() < 0.8 or self.world.draining:
                    self.say(wire.Received(ended))
            case wire.Refused("id-conflict", _, job_ids):
                assert self.contradicted.issuperset(job_ids), "a repetition was refused"
            case wire.Refused("unknown-job", _, job_ids):
                self.attached.difference_update(job_ids)

    def has_inline(self) -> bool:
        return any(map(self._is_inline, self.waiting))

    def _is_inline(self, job_id: str) -> bool:
        spec = self.submitted.get(job_id)
        return spec is not None and spec.kind == "inline"

    def submit(self) -> None:
        specs = [self._new_spec() for _ in range(self.rng.choice([1, 1, 2, 4]))]
        for spec in specs:
            self.submitted[spec.job_id] = self.unaccepted[spec.job_id] = spec
            self.world.job_ids.append(spec.job_id)
            if not spec.detached:
                self.waiting.add(spec.job_id)
        self.say(wire.Submit(tuple(specs)))

    def _new_spec(self) -> JobSpec:
        rng = self.rng
        inline = rng.random() < 0.1
        parent = self.parent
        if not parent and self.submitted and rng.random() < 0.05:
            parent = rng.choice(list(self.submitted))  # no honest client would say so
        return a_spec(
            job_id=self.world.new_id(),
            job_type=rng.choice(list(NEEDS)),
            kind="inline" if inline else rng.choice(["call", "command"]),
            by={"n": rng.randrange(10)} if self.parent else rng.choice([{}, {}, {"n": 1}]),
            policy=rng.choice(["spread", "pack"]),
            function="" if inline else rng.choice(list(BLOBS)),
            parent=parent,
            pin=f"HOST-{rng.choice(self.world.slots).index}" if rng.random() < 0.05 else "",
            detached=not inline and rng.random() < 0.2,
            has_stand_in=not inline and rng.random() < 0.25,
            version=rng.choice(["", "1", "1", "2"]),
            memory_bytes=rng.choice([0, 0, 0, 100 * MIB, 3000 * MIB]),
            priority=rng.choice([0, 0, 0, 1]),
            oom_retries=rng.choice([0, 1, 2, 2]),
        )

    def repeat(self) -> None:
        if self.submitted:
            self.say(wire.Submit((self.rng.choice(list(self.submitted.values())),)))

    def contradict(self) -> None:
        """Use an id again for another job."""
        if self.submitted:
            spec = self.rng.choice(list(self.submitted.values()))
            other = a_spec(job_id=spec.job_id, job_type="another", payload=b"other")
            if spec.job_id not in self.unaccepted:
                self.contradicted.add(spec.job_id)
                self.say(wire.Submit((other,)))

    def send_blobs(self) -> None:
        self.say(wire.Blobs(tuple(BLOBS.values())))

    def cancel(self) -> None:
        if self.world.job_ids:
            job_ids = self.rng.choices(self.world.job_ids, k=self.rng.choice([1, 1, 3]))
            self.say(wire.Cancel(tuple(job_ids), interrupt=self.rng.random() < 0.5))

    def attach(self) -> None:
        if self.world.job_ids:
            job_id = self.rng.choice(self.world.job_ids)
            self.attached.add(job_id)
            self.say(wire.Attach((job_id,)))

    def ask(self) -> None:
        asks = (
            wire.AskDevices(),
            wire.AskJobs(0, ended=True),
            wire.AskProfiles(0),
            wire.ForgetProfiles((self.rng.choice(list(NEEDS)),)),
        )
        self.say(self.rng.choice(asks))

    def release(self) -> None:
        if self.releases:
            runs = [Released(*one, failed=self.rng.random() < 0.3) for one in self.releases]
            self.say(wire.Release(tuple(runs)))
            self.releases.clear()

    def die(self) -> None:
        self.alive = False
        self.world.strays += [(self.peer, message) for message in self.outbox]
        self.world.dying.append(self.session)


@dataclass
class SimRun:
    """An attempt in the hands of a simulated worker."""

    run: Run
    running: bool = False
    ending: bool = False
    given_up: bool = False
    used: int = 0
    peak: int = 0
    child: SimClient | None = None
    patient: bool = True

    @property
    def waits(self) -> bool:
        """Whether its function is in a call of another job."""
        return self.patient and self.child is not None and bool(self.child.waiting)


class SimWorker(Actor):
    """One incarnation of the worker of a device."""

    def __init__(self, world: World, slot: Slot) -> None:
        super().__init__(world)
        self.slot = slot
        self.incarnation = world.new_id()
        self.epoch = 0
        self.silent_until = 0.0
        self.idle = 0
        self.blobs: set[str] = set()
        self.runs: dict[str, SimRun] = {}
        self.unrecorded: dict[tuple[str, int], Result] = {}
        self.greet()

    def greet(self) -> None:
        attempts = [(one.run.job_id, one.run.attempt) for one in self.runs.values()]
        inventory = tuple(AttemptId(*one) for one in [*attempts, *self.unrecorded])
        slot = self.slot
        self.say(
            a_greet(
                slot.index,
                slot.total,
                incarnation=self.incarnation,
                max_jobs=slot.max_jobs,
                inventory=inventory,
            )
        )

    def has_inline(self) -> bool:
        return any(one.run.kind == "inline" for one in self.runs.values())

    def read(self) -> None:
        message = self.inbox.popleft()
        match message:
            case wire.Welcome(_, epoch):
                self.welcomed, self.epoch = True, epoch
                self.report()
            case wire.Refused("device-taken"):
                self.greet()
            case wire.Blobs(blobs):
                self.blobs |= {blob.digest for blob in blobs}
            case wire.Assign(epoch, runs) if epoch == self.epoch:
                for run in runs:
                    patient = self.rng.random() < 0.9
                    self.runs.setdefault(run.job_id, SimRun(run, patient=patient))
                    if run.function and run.function not in self.blobs:
                        self.say(wire.Want((run.function,)))
            case wire.End(_, how, attempts):
                for named in attempts:
                    if one := self._run(named):
                        one.ending, one.given_up = True, how == "kill"
            case wire.Release(runs):
                for released in runs:
                    if one := self._run(released):
                        self._finish(one, "failed" if released.failed else "succeeded")
            case wire.Recorded(_, attempts):
                for ended in attempts:
                    self.unrecorded.pop((ended.job_id, ended.attempt), None)
            case wire.EndIdle():
                self.idle = 0

    def _run(self, named: AttemptId | Released) -> SimRun | None:
        one = self.runs.get(named.job_id)
        return one if one is not None and one.run.attempt == named.attempt else None

    def start(self) -> None:
        """Begin one attempt that has all it needs."""
        ready = [
            one
            for one in self.runs.values()
            if not one.running and (not one.run.function or one.run.function in self.blobs)
        ]
        if ready:
            one = self.rng.choice(ready)
            one.running = True
            self.world.oracle.started(one.run)
            run = one.run
            begun = Begun(run.job_id, run.attempt, "host", run.stand_in, {})
            self.say(wire.Started((begun,)))

    def grow(self) -> None:
        """Running jobs take and free memory, now and then more than they ever did."""
        for one in self.runs.values():
            if one.running:
                most = NEEDS[one.run.job_type] * self.rng.choice([1.0, 1.0, 2.5])
                one.used = int(most * self.rng.random()) * MIB
                one.peak = max(one.peak, one.used)
        self.report()

    def report(self) -> None:
        uses = tuple(
            Use(one.run.job_id, one.run.attempt, one.used) for one in self.runs.values()
        )
        foreign, idle = self.slot.foreign * MIB, self.idle * MIB
        self.say(wire.Report(foreign, foreign, idle, 0.0, uses))

    def strangers(self) -> None:
        self.slot.foreign = self.rng.choice([0, 0, 100, 400, self.slot.total])
        self.idle = self.rng.choice([0, 0, 30, 60])
        self.report()

    def end_some(self) -> None:
        """One attempt ends as its function, a signal or the broker wants it."""
        able = [one for one in self.runs.values() if self._can_end(one)]
        if able:
            one = self.rng.choice(able)
            good = one.running and self.rng.random() < (0.1 if one.ending else 0.75)
            self._finish(one, "succeeded" if good else self.rng.choice(OUTCOMES))

    def _can_end(self, one: SimRun) -> bool:
        if one.run.kind == "inline":  # ends with its caller, or by its release
            return one.given_up or not self.world.lives(one.run.session)
        if one.ending:
            return True
        return one.running and not one.waits

    def end_well(self) -> None:
        """Everything that can return does so."""
        for one in [one for one in self.runs.values() if self._can_end(one)]:
            good = one.running and not one.ending
            self._finish(one, "succeeded" if good else "cancelled")

    def _finish(self, one: SimRun, outcome: str) -> None:
        run = one.run
        del self.runs[run.job_id]
        if one.child is not None and one.child.alive:
            one.child.die()
        need = int(NEEDS[run.job_type] * self.rng.uniform(0.8, 1.0)) * MIB
        result = a_result(
            attempt=run.attempt,
            job_id=run.job_id,
            outcome=outcome,
            peak_bytes=max(one.peak, need),
            asked_bytes=self.rng.choice([0, 50 * MIB]) if outcome == "oom" else 0,
            payload=of_result(run),
        )
        self.unrecorded[run.job_id, run.attempt] = result
        self.say(wire.Finished(self.epoch, (result,)))

    def call_a_job(self) -> None:
        """The function of a running attempt submits jobs itself."""
        able = [one for one in self.runs.values() if one.running and one.child is None]
        for one in able[:1]:
            depth = self.world.depth_of(one.run.job_id) + 1
            if depth <= 4:
                one.child = self.world.new_client(one.run.job_id, depth)
                one.child.submit()

    def print_something(self) -> None:
        attempts = [(one.run.job_id, one.run.attempt) for one in self.runs.values()]
        if attempts:
            self.say(wire.Output(tuple(Piece(*one, "stdout", b"x") for one in attempts)))

    def repeat_results(self) -> None:
        for result in self.unrecorded.values():
            self.say(wire.Finished(self.epoch, (result,)))

    def repeat_something(self) -> None:
        """A message arrives again, long after its time."""
        old = [one for one in self.said if isinstance(one, wire.Started | wire.Finished)]
        if old:
            self.outbox.append(self.rng.choice(old))

    def fall_silent(self) -> None:
        self.silent_until = self.world.now + self.rng.uniform(3.0, 15.0)

    def crash(self) -> None:
        self.alive = False
        self.world.strays += [(self.peer, message) for message in self.outbox]
        self.world.dying.append(self.incarnation)
        for one in self.runs.values():
            if one.child is not None and one.child.alive:
                one.child.die()
