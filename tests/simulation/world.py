"""A seeded world around the real broker core: every message goes through the real codec.

Messages leave only after what led to them was committed to the model of a disk; the broker
may be killed between any two of these steps, and starts anew from the disk.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from broker.core import BrokerCore
from broker.effects import Effect, Note, Quit, Send, Watch
from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.records import JobSpec
from tests.simulation.actors import Actor
from tests.simulation.cancels import Cancels
from tests.simulation.clients import SimClient
from tests.simulation.crew import SimWorker
from tests.simulation.declared import CAPACITY, OFFERS
from tests.simulation.disk import SimDisk
from tests.simulation.ending import drain, everybody_calls, judge_the_end
from tests.simulation.oracle import Oracle
from tests.simulation.riding import learn_tiny
from tests.simulation.stage import Slot

STEPS: Final = int(os.environ.get("GRN_SIM_STEPS", "300"))
MOST_JOBS: Final = 40
# Everything happens a little faster here, so that a story of a minute has room for it.
SETTINGS: Final = Settings(
    return_s=3.0,
    return_after_start_s=10.0,
    away_s=6.0,
    capacity=CAPACITY,
    short_s=1e6,
    train_s=1e9,
)


class World:
    """Clients, workers, the kernel, a disk and time; all that happens follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.now = 0.0
        self.boot = 1
        self.epoch = 0
        self.disk = SimDisk()
        self.oracle = Oracle(self)
        self.cancels = Cancels(self, SETTINGS)
        self.census: Counter[str] = Counter()
        self.actors: dict[bytes, Actor] = {}
        self.clients: list[SimClient] = []
        self.strays: list[tuple[bytes, wire.Message]] = []
        self.dying: list[str] = []
        self.broken: list[bytes] = []
        self.job_ids: list[str] = []
        self.specs: dict[str, JobSpec] = {}
        self.draining = False
        self.up = True
        self.down_until = 0.0
        self._turn: list[Effect] = []
        self._ids = 0
        self._connections = 0
        # Some stories are quiet, so that long ones are told too.
        self.crashes = rng.choice([0.0, 0.01, 0.03])
        # In some, everybody waits for somebody at last, on the only device.
        self.families = rng.random() < 0.25
        self.slots = [
            Slot(
                index,
                rng.choice([600, 1000, 2000]),
                rng.choice([None, None, 1, 2, 3]),
                # Somebody offers it, or jobs would wait for it for ever.
                OFFERS[2] if index == 0 else rng.choice(OFFERS),
            )
            for index in range(1 if self.families else rng.choice([1, 2, 3]))
        ]
        self.core = self._new_broker()
        if rng.random() < 0.5:  # what is known to be short may ride
            learn_tiny(self.disk)
            self.core.restore(self.disk.kept(self.epoch), self.now)
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
        names = [one.session for one in self.clients if one.alive]
        return name in names or name in [one.incarnation for one in self.workers if one.alive]

    def owner_lives(self, job_id: str) -> bool:
        """Whether the client that submitted this job is there."""
        return any(one.alive for one in self.clients if job_id in one.submitted)

    def run(self) -> None:
        """Live through the whole story, and see that it ended well."""
        for _ in range(STEPS):
            self.now += self.rng.choice([0.0, 0.01, 0.1, 0.5])
            self._step()
        if self.families:
            everybody_calls(self)
        self.finish()

    def finish(self) -> None:
        """Let all work be done, and see that nothing is missing."""
        drain(self)
        judge_the_end(self)

    def _step(self) -> None:
        chance = self.rng.random()
        if not self.up and self.now >= self.down_until:
            self.start_broker()
        elif chance < 0.45:
            for _ in range(self.rng.choice([1, 3, 6])):
                self.deliver_one()
        elif chance < 0.50:
            self.kernel()
        elif chance < 0.54:
            self.tick()
        elif chance < 0.72:
            self._client_acts()
        elif chance < 0.997 or not self.crashes:
            self._worker_acts()
        else:
            self.cut_power()
        self._end_turn()
        if self.rng.random() < 0.1:
            self._nothing_waits_that_could_run()

    def deliver_one(self) -> None:
        """One message arrives somewhere; each connection keeps its order."""
        if self.strays and self.rng.random() < 0.1:
            peer, message = self.strays.pop(self.rng.randrange(len(self.strays)))
            self.hand_over(peer, message)
            return
        actors = [*self.living_clients(), *self.living_workers()]
        senders = [one for one in actors if one.outbox]
        readers = [one for one in actors if one.inbox]
        if self.up and senders and self.rng.random() < 0.5:
            self.deliver(self.rng.choice(senders))
        elif readers:
            self.rng.choice(readers).read()

    def deliver(self, actor: Actor) -> None:
        self.hand_over(actor.peer, actor.outbox.popleft())

    def hand_over(self, peer: bytes, message: wire.Message) -> None:
        if self.up:
            self.census[message.kind] += 1
            received = wire.decode(wire.encode(message))
            self.cancels.heard(peer, received)
            self._after(self.core.handle(peer, received, self.now))

    def tick(self) -> None:
        if self.up:
            self.cancels.tick()
            self._after(self.core.tick(self.now))

    def kernel(self) -> None:
        """The kernel tells the broker that a process is gone, or a connection."""
        if not self.up:
            return
        if self.dying and (not self.broken or self.rng.random() < 0.5):
            name = self.dying.pop(self.rng.randrange(len(self.dying)))
            self._after(self.core.lose(name, self.now))
        elif self.broken:
            peer = self.broken.pop()
            self.cancels.disconnected(peer)
            self.core.disconnected(peer, self.now)
            self._after([])

    def _after(self, effects: list[Effect]) -> None:
        """Check every rule; what is to be done waits for the end of the turn."""
        self.core.check()
        self.oracle.look(effects)
        self._turn += effects
        for effect in effects:
            if isinstance(effect, Watch) and not self.lives(effect.name):
                self.dying.append(effect.name)
        if self.rng.random() < 0.5:
            self._end_turn()

    def _end_turn(self) -> None:
        killed = self.rng.random() < self.crashes and not self.draining and bool(self._turn)
        self.end_turn(self.rng.choice(["before", "after", "amid"]) if killed else "")

    def end_turn(self, when: str = "") -> None:
        """Commit, then send; unless the broker is killed before, after or amid these."""
        effects, self._turn = self._turn, []
        if not self.up:
            return
        if when == "before":
            self.kill_broker()
            return
        self.commit()
        sends = [one for one in effects if isinstance(one, Send)]
        if when:
            sends = sends[: 0 if when == "after" else self.rng.randint(0, len(sends))]
        for send in sends:
            self.transmit(send)
        if when:
            self.kill_broker()
        elif any(isinstance(one, Quit) for one in effects):
            self.census["quit"] += 1
            self.kill_broker()

    def commit(self) -> None:
        batch = self.core.take_batch()
        if not batch.empty:
            self.cancels.judge(batch)
            self.disk.write(batch)

    def transmit(self, send: Send) -> None:
        """A message leaves, with what of it was in the journal only."""
        message = send.message
        if isinstance(message, wire.Assign):
            runs = tuple(
                replace(run, payload=self.disk.payload(run.job_id))
                if run.job_id in send.fetch
                else run
                for run in message.runs
            )
            message = replace(message, runs=runs)
        elif isinstance(message, wire.Ended) and send.fetch:
            outcomes = tuple(
                replace(one, payload=self.disk.result(one.job_id)) for one in message.outcomes
            )
            message = replace(message, outcomes=outcomes)
        self.oracle.told(message)
        actor = self.actors.get(send.peer)
        if actor is not None and actor.alive and actor.peer == send.peer:
            self.census[message.kind] += 1
            actor.inbox.append(wire.decode(wire.encode(message)))

    def kill_broker(self) -> None:
        """All that was not committed is gone, and so are all connections."""
        self.census["kill"] += 1
        self.up = False
        self.down_until = self.now + self.rng.choice([0.0, 0.2, 2.0])
        self._turn = []
        self.strays.clear()
        self.broken.clear()

    def _new_broker(self) -> BrokerCore:
        self.epoch += 1
        self.up = True
        return BrokerCore(self.epoch, pid=self.epoch, settings=SETTINGS)

    def start_broker(self) -> None:
        """Another broker takes over from the disk, and everybody finds it."""
        self.oracle.look_at_disk()
        self.core = self._new_broker()
        self.cancels.broker_started()
        self.dying.clear()  # who is watched is looked at anew
        self._after(self.core.restore(self.disk.kept(self.epoch), self.now))
        while self.dying and self.up:  # before anybody can connect
            self.kernel()
        self._end_turn()
        for client in self.clients:
            if client.alive:
                client.find_new_broker()
        for worker in self.workers:
            if worker.alive:
                worker.find_new_broker()
                if not self.draining:
                    self._may_not_be_heard_of(worker)

    def _may_not_be_heard_of(self, worker: SimWorker) -> None:
        """What a worker has begun a new broker learns from it alone, if that lives so long."""
        chance = self.rng.random()
        if chance < 0.2:  # longer than anybody waits for it, perhaps
            worker.silent_until = self.now + self.rng.uniform(5.0, 25.0)
        elif chance < 0.35:
            worker.crash()

    def cut_power(self) -> None:
        """Nobody survives, and of what was written only what was flushed, and perhaps more."""
        self.census["power"] += 1
        for client in self.clients:
            client.alive = False
        for worker in self.workers:
            if worker.alive:
                worker.crash()
        for slot in self.slots:
            slot.spool.cut_power(self.rng)
        self.boot += 1
        self.kill_broker()
        self.disk.cut_power(self.rng)
        self.oracle.power_cut()
        self.start_broker()

    def _nothing_waits_that_could_run(self) -> None:
        if not self.up:
            return
        due = self.core.book.gates.next_due
        if due is not None and due <= self.now:
            self.tick()  # as the loop does when somebody's time has come
        self.cancels.tick()
        effects = self.core.tick(self.now)
        texts = {one.text for one in effects if isinstance(one, Note)}
        assert texts != {"placed"}, "a job waited although it could run"
        self._after(effects)

    def living_clients(self) -> list[SimClient]:
        return [one for one in self.clients if one.alive and self.now >= one.silent_until]

    def living_workers(self) -> list[SimWorker]:
        return [one for one in self.workers if one.alive and self.now >= one.silent_until]

    def _client_acts(self) -> None:
        clients = self.living_clients()
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
            (client.order, 6),
            (client.send_blobs, 2),
            (client.reconnect, 3),
            (client.fall_silent, 1),
        ]
        if len(self.job_ids) < MOST_JOBS:
            acts += [(client.submit, 12), (client.submit_like, 3)]
        if not client.parent:
            acts.append((client.die, 1))
        if self.rng.random() < 0.1:
            acts.append((client.stop, 1))
        self._do(acts)

    def _worker_acts(self) -> None:
        slot = self.rng.choice(self.slots)
        if not self.workers[slot.index].alive:
            self.workers[slot.index] = SimWorker(self, slot)
            return
        worker = self.workers[slot.index]
        if self.now < worker.silent_until:
            return
        acts: list[tuple[Callable[[], None], int]] = [
            (worker.start, 30),
            (worker.grow, 15),
            (worker.end_some, 20),
            (worker.ride, 10),
            (worker.give_back, 3),
            (worker.strangers, 3),
            (worker.print_something, 2),
            (worker.repeat_results, 3),
            (worker.repeat_something, 4),
            (worker.mend_spool, 3),
            (worker.reconnect, 2),
            (worker.fall_silent, 1),
            (worker.leave, 1),
            (worker.go_if_done, 10),
            (worker.crash, 1),
        ]
        if len(self.job_ids) < MOST_JOBS:
            acts.append((worker.call_a_job, 12))
        self._do(acts)

    def _do(self, acts: list[tuple[Callable[[], None], int]]) -> None:
        (act,) = self.rng.choices([one for one, _ in acts], [weight for _, weight in acts])
        self.census[act.__name__] += 1
        act()
