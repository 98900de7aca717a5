"""Simulated clients: they submit, wait, cancel and die, and repeat what was not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grn_zmq import wire
from grn_zmq.records import JobSpec, Released
from tests.builders import MIB, a_spec
from tests.simulation.actors import Actor
from tests.simulation.declared import declared_by
from tests.simulation.people import an_order, gates_of
from tests.simulation.riding import like_calls
from tests.simulation.stage import BLOBS, NEEDS

if TYPE_CHECKING:
    from tests.simulation.world import World


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
        # Inline bodies: those that run here, and how those ended that the broker may not know.
        self.bodies: dict[str, int] = {}
        self.released: dict[str, Released] = {}
        self.unsaid: list[str] = []
        self.greet()

    def greet(self) -> None:
        self.welcomed = False
        self.say(wire.Hello(wire.PROTOCOL, self.session, self.pid))

    def read(self) -> None:
        message = self.inbox.popleft()
        match message:
            case wire.Welcome():
                self.welcomed = True
                self._repeat_all()
            case wire.Accepted(jobs):
                for one in jobs:
                    assert one.job_id in self.submitted, "told of a job of somebody else"
                    self.unaccepted.pop(one.job_id, None)
            case wire.Taken(_, job_ids):
                for job_id in job_ids:
                    assert job_id in self.submitted, "told of a job of somebody else"
                    self.unaccepted.pop(job_id, None)
            case wire.Want(digests):
                self.say(wire.Blobs(tuple(BLOBS[digest] for digest in digests)))
            case wire.Started(runs):
                for begun in runs:
                    if self._is_inline(begun.job_id) and begun.job_id not in self.released:
                        self.bodies[begun.job_id] = begun.attempt
            case wire.Ended(outcomes):
                self._on_ended(tuple(outcome.job_id for outcome in outcomes))
            case wire.Values(_, job_ids):
                self._on_ended(job_ids)
            case wire.Cancelling(job_ids):
                self.world.oracle.cancel_acknowledged(job_ids)
            case wire.Refused():
                self._on_refused(message)

    def _repeat_all(self) -> None:
        self.unsaid.clear()  # it is told of these again
        if self.unaccepted:
            self.say(wire.Submit(tuple(self.unaccepted.values())))
        if known := (self.waiting - self.unaccepted.keys()) | self.attached:
            self.say(wire.Attach(tuple(sorted(known))))
        if self.released:
            self.say(wire.Release(tuple(self.released.values())))

    def _on_ended(self, job_ids: tuple[str, ...]) -> None:
        self._forget(job_ids)
        self.unsaid += job_ids
        if self.rng.random() < 0.8 or self.world.draining:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self.unsaid:
            self.say(wire.Received(tuple(self.unsaid)))
            self.unsaid.clear()

    def _forget(self, job_ids: tuple[str, ...]) -> None:
        self.waiting.difference_update(job_ids)
        self.attached.difference_update(job_ids)
        for job_id in job_ids:  # an answer, too: it was cancelled by somebody
            self.unaccepted.pop(job_id, None)
            self.released.pop(job_id, None)
            self.bodies.pop(job_id, None)

    def _on_refused(self, message: wire.Refused) -> None:
        match message.reason:
            case "id-conflict":
                assert self.contradicted.issuperset(message.job_ids), "a repetition was refused"
            case (
                "unknown-job"
                | "unknown-dependency"
                | "result-expired"
                | "draining"
                | "quarantined"
                | "impossible"
                | "unknown-queue"
                | "queue-closed"
            ):
                self._forget(message.job_ids)
            case "greet-first":
                self.greet()

    def _is_inline(self, job_id: str) -> bool:
        spec = self.submitted.get(job_id)
        return spec is not None and spec.kind in ("inline", "lease")

    def submit(self) -> None:
        specs = [self._new_spec() for _ in range(self.rng.choice([1, 1, 2, 4]))]
        self._note(specs)
        self.say(wire.Submit(tuple(specs)))

    def submit_like(self) -> None:
        """Many calls of one function at once."""
        message, specs = like_calls(self)
        self._note(specs)
        self.say(message)

    def _note(self, specs: list[JobSpec]) -> None:
        for spec in specs:
            self.submitted[spec.job_id] = self.unaccepted[spec.job_id] = spec
            self.world.job_ids.append(spec.job_id)
            self.world.specs[spec.job_id] = spec
            if not spec.detached:
                self.waiting.add(spec.job_id)

    def _new_spec(self) -> JobSpec:
        rng = self.rng
        inline = rng.random() < 0.1
        declared = {} if inline else declared_by(self)
        if inline and rng.random() < 0.5:
            declared = {"kind": "lease", "exclusive": True, "gpus": rng.choice([1, 1, 2])}
        parent = self.parent
        if not parent and self.submitted and rng.random() < 0.05:
            parent = rng.choice(list(self.submitted))  # no honest client would say so
        kind = "inline" if inline else rng.choice(["call", "command"])
        return a_spec(
            job_id=self.world.new_id(),
            job_type=rng.choice(list(NEEDS)),
            kind=declared.pop("kind", kind),
            by={"n": rng.randrange(10)} if self.parent else rng.choice([{}, {}, {"n": 1}]),
            policy=rng.choice(["spread", "pack"]),
            function="" if inline else rng.choice(list(BLOBS)),
            parent=parent,
            pin=self._pin() if not declared and rng.random() < 0.05 else "",
            detached=not inline and rng.random() < 0.35,
            has_stand_in=not inline and rng.random() < 0.25,
            version=rng.choice(["", "1", "1", "2"]),
            memory_bytes=rng.choice([0, 0, 0, 100 * MIB, 3000 * MIB]),
            priority=rng.choice([0, 0, 0, 1]),
            oom_retries=rng.choice([0, 1, 2, 2]),
            retries=0 if inline else rng.choice([0, 0, 0, 1, 3]),
            retry_on=rng.choice([(), (), ("lost",), ("killed", "time-limit"), ("ValueError",)]),
            timeout_s=rng.choice([None, None, None, 0.0, 1.0, 20.0]),
            payload=rng.choice([b"", b"arguments"]),
            **{**({} if inline or parent else gates_of(self)), **declared},
        )

    def _pin(self) -> str:
        return f"HOST-{self.rng.choice(self.world.slots).index}"

    def repeat(self) -> None:
        if self.submitted:
            self.say(wire.Submit((self.rng.choice(list(self.submitted.values())),)))

    def contradict(self) -> None:
        """Use an id again for another job."""
        if self.submitted:
            spec = self.rng.choice(list(self.submitted.values()))
            other = a_spec(job_id=spec.job_id, job_type="another", payload=b"other")
            if self.world.oracle.is_accepted(spec.job_id):
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
            self._acknowledge()
            self.say(wire.Attach((job_id,)))

    def ask(self) -> None:
        asks = (
            wire.AskDevices(),
            wire.AskJobs(0, ended=True),
            wire.AskProfiles(0),
            wire.ForgetProfiles((self.rng.choice(list(NEEDS)),)),
        )
        self.say(self.rng.choice(asks))

    def order(self) -> None:
        """Somebody uses a command."""
        order = an_order(self)
        if isinstance(order, wire.Clean):
            self.world.oracle.may_be_forgotten(order.job_ids)
        self.say(order)

    def release(self) -> None:
        """The inline bodies that run here end."""
        for job_id, attempt in self.bodies.items():
            failed = self.rng.random() < 0.3
            self.released[job_id] = Released(job_id, attempt, failed=failed)
        self.bodies.clear()
        if self.released:
            self.say(wire.Release(tuple(self.released.values())))

    def stop(self) -> None:
        self.say(wire.Stop(drain=self.rng.random() < 0.5))

    def die(self) -> None:
        self.alive = False
        self.world.strays += [(self.peer, message) for message in self.outbox]
        self.world.dying.append(self.session)
