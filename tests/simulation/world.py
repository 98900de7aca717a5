"""A seeded world around the real broker core: every message goes through the real codec."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from broker.core import BrokerCore
from broker.effects import Effect, Note, Send, Watch
from grn_zmq import wire
from tests.simulation.actors import Actor, SimClient, SimWorker
from tests.simulation.oracle import Oracle
from tests.simulation.stage import Slot

STEPS: Final = 300
MOST_JOBS: Final = 40
MOST_ROUNDS: Final = 400
EPOCH: Final = 7


class World:
    """Clients, workers, the kernel and time; all that happens follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.core = BrokerCore(EPOCH, pid=1)
        self.oracle = Oracle(self.core.book)
        self.census: Counter[str] = Counter()
        self.actors: dict[bytes, Actor] = {}
        self.clients: list[SimClient] = []
        self.strays: list[tuple[bytes, wire.Message]] = []
        self.dying: list[str] = []
        self.job_ids: list[str] = []
        self.draining = False
        self._ids = 0
        self._connections = 0
        rng = self.rng
        self.slots = [
            Slot(index, rng.choice([600, 1000, 2000]), rng.choice([None, None, 1, 2, 3]))
            for index in range(rng.choice([1, 1, 2, 3]))
        ]
        self.workers = [SimWorker(self, slot) for slot in self.slots]
        for _ in range(rng.choice([1, 2, 3])):
            self.new_client()

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    def connect(self, actor: Actor) -> bytes:
        self._connections += 1
        peer = f"peer {self._connections}".encode()
        self.actors[peer] = actor
        return peer

    def new_client(self, parent: str = "", depth: int = 0) -> SimClient:
        client = SimClient(self, parent, depth)
        self.clients.append(client)
        return client

    def depth_of(self, job_id: str) -> int:
        return next((one.depth for one in self.clients if job_id in one.submitted), 0)

    def lives(self, name: str) -> bool:
        """Whether the process of this session or incarnation is there."""
        names = [one.session for one in self._living_clients()]
        return name in names or name in [one.incarnation for one in self.workers if one.alive]

    def run(self) -> None:
        """Live through the whole story, and see that it ended well."""
        for _ in range(STEPS):
            self.now += self.rng.choice([0.0, 0.01, 0.1, 0.5])
            self._step()
        self._drain()
        self._judge_the_end()

    def _step(self) -> None:
        chance = self.rng.random()
        if chance < 0.45:
            for _ in range(self.rng.choice([1, 3, 6])):
                self._deliver_one()
        elif chance < 0.50:
            self._kernel()
        elif chance < 0.54:
            self._after(self.core.tick(self.now))
        elif chance < 0.72:
            self._client_acts()
        else:
            self._worker_acts()
        if self.rng.random() < 0.1:
            self._nothing_waits_that_could_run()

    def _deliver_one(self) -> None:
        """One message arrives somewhere; each connection keeps its order."""
        if self.strays and self.rng.random() < 0.2:
            peer, message = self.strays.pop(self.rng.randrange(len(self.strays)))
            self._hand_over(peer, message)
            return
        actors = [*self._living_clients(), *self._living_workers()]
        senders = [one for one in actors if one.outbox]
        readers = [one for one in actors if one.inbox]
        if senders and self.rng.random() < 0.5:
            self._deliver(self.rng.choice(senders))
        elif readers:
            self.rng.choice(readers).read()

    def _deliver(self, actor: Actor) -> None:
        self._hand_over(actor.peer, actor.outbox.popleft())

    def _hand_over(self, peer: bytes, message: wire.Message) -> None:
        self.census[message.kind] += 1
        self._after(self.core.handle(peer, wire.decode(wire.encode(message)), self.now))

    def _after(self, effects: list[Effect]) -> None:
        """Check every rule, then carry out what the core wants."""
        self.core.check()
        self.oracle.look(effects)
        for effect in effects:
            if isinstance(effect, Watch) and not self.lives(effect.name):
                self.dying.append(effect.name)
            if isinstance(effect, Send):
                actor = self.actors.get(effect.peer)
                if actor is not None and actor.alive and actor.peer == effect.peer:
                    self.census[effect.message.kind] += 1
                    actor.inbox.append(wire.decode(wire.encode(effect.message)))

    def _kernel(self) -> None:
        """The kernel tells the broker that a process is gone."""
        if self.dying:
            name = self.dying.pop(self.rng.randrange(len(self.dying)))
            self._after(self.core.lose(name, self.now))

    def _nothing_waits_that_could_run(self) -> None:
        effects = self.core.tick(self.now)
        placed = [one for one in effects if isinstance(one, Note) and one.text == "placed"]
        assert not placed, "a job waited although it could run"
        self._after(effects)

    def _living_clients(self) -> list[SimClient]:
        return [one for one in self.clients if one.alive]

    def _living_workers(self) -> list[SimWorker]:
        return [one for one in self.workers if one.alive and self.now >= one.silent_until]

    def _client_acts(self) -> None:
        clients = self._living_clients()
        if not clients:
            self.new_client()
            return
        client = self.rng.choice(clients)
        acts: list[tuple[Callable[[], None], int]] = [
            (client.release, 10),
            (client.repeat, 3),
            (client.contradict, 1),
            (client.cancel, 3),
            (client.attach, 3),
            (client.ask, 2),
            (client.send_blobs, 2),
            (client.reconnect, 3),
        ]
        if len(self.job_ids) < MOST_JOBS:
            acts.append((client.submit, 12))
        if not client.parent:
            acts.append((client.die, 1))
        self._do(acts)

    def _worker_acts(self) -> None:
        slot = self.rng.choice(self.slots)
        if not self.workers[slot.index].alive:
            self.workers[slot.index] = SimWorker(self, slot)
            return
        worker = self.workers[slot.index]
        if not worker.welcomed or self.now < worker.silent_until:
            return
        acts: list[tuple[Callable[[], None], int]] = [
            (worker.start, 30),
            (worker.grow, 15),
            (worker.end_some, 20),
            (worker.strangers, 3),
            (worker.print_something, 2),
            (worker.repeat_results, 3),
            (worker.repeat_something, 4),
            (worker.reconnect, 2),
            (worker.fall_silent, 1),
            (worker.crash, 1),
        ]
        if len(self.job_ids) < MOST_JOBS:
            acts.append((worker.call_a_job, 12))
        self._do(acts)

    def _do(self, acts: list[tuple[Callable[[], None], int]]) -> None:
        (act,) = self.rng.choices([one for one, _ in acts], [weight for _, weight in acts])
        self.census[act.__name__] += 1
        act()

    def _drain(self) -> None:
        """Faults stop, everybody comes back, and all work is done."""
        self.draining = True
        for slot in self.slots:
            slot.foreign = 0
            if not self.workers[slot.index].alive:
                self.workers[slot.index] = SimWorker(self, slot)
            self.workers[slot.index].silent_until = 0.0
            self.workers[slot.index].idle = 0
        for _ in range(MOST_ROUNDS):
            self._round()
            if self._all_is_done():
                return
        live = [
            (job.number, job.state.value) for job in self.core.book.jobs.values() if job.live
        ]
        held = [str(self.core.why(job, self.now)) for job in self.core.book.waiting]
        raise AssertionError(f"the work is never done: {live}, {held}")

    def _round(self) -> None:
        self.now += 1.0
        while self.dying:
            self._kernel()
        while self.strays:
            peer, message = self.strays.pop(0)
            self._hand_over(peer, message)
        for worker in self.workers:
            worker.report()
            worker.repeat_results()
            for _ in range(len(worker.runs)):
                worker.start()
            worker.end_well()
        for client in self._living_clients():
            while client.releases:
                client.release()
        self._deliver_all()
        self._after(self.core.tick(self.now))

    def _deliver_all(self) -> None:
        actors = [*self._living_clients(), *self.workers]
        while any(one.outbox for one in actors):
            for actor in actors:
                while actor.outbox:
                    self._deliver(actor)
                while actor.inbox:
                    actor.read()

    def _all_is_done(self) -> bool:
        idle = not any(one.runs or one.unrecorded for one in self.workers)
        quiet = not self.dying and not any(
            one.inbox or one.outbox for one in [*self._living_clients(), *self.workers]
        )
        return idle and quiet and not any(job.live for job in self.core.book.jobs.values())

    def _judge_the_end(self) -> None:
        book, oracle = self.core.book, self.oracle
        assert oracle.accepted <= book.jobs.keys(), "an accepted job is not known any more"
        assert all(oracle.ends[job.number] == 1 for job in book.jobs.values())
        assert not any(worker.ledger.leases for worker in book.workers.values())
        assert len(book.waiting) == 0
        for job in book.jobs.values():
            if job.outcome is not None and job.outcome.outcome == "succeeded":
                assert oracle.bodies[job.job_id] >= 1, f"{job.job_id} succeeded without running"
        for client in self._living_clients():
            assert not client.unaccepted, "a submission was never answered"
            untold = client.waiting | client.attached
            assert not untold, f"{client.session} was not told of {untold}"
            self.dying.append(client.session)
            client.alive = False
        while self.dying:
            self._kernel()
        assert len(book.blobs) == 0, "blobs are kept that nobody needs"
        assert not book.sessions
