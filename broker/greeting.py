"""A worker greets: who it is, what it still has, and what becomes of what it had."""

import math

from grn_zmq import wire
from grn_zmq.records import AttemptId, Held, Released

from .book import Book, facts_of
from .changes import Life
from .company import ancestors
from .effects import Effect, Note, Peer, Send, Watch
from .finishing import Finishing
from .jobs import Job, State
from .ledger import Lease, Ledger
from .peers import Worker
from .reconciling import Verdict, judge
from .runs import INLINE, run_of
from .settings import Settings
from .turning_away import wrong_version


class Greetings:
    """Takes workers in, and in again after whatever happened to them or to us."""

    def __init__(self, book: Book, settings: Settings, finishing: Finishing) -> None:
        self._book = book
        self._settings = settings
        self._finishing = finishing
        self.by_peer: dict[Peer, Worker] = {}

    def on_greet(self, peer: Peer, message: wire.Greet, now: float) -> list[Effect]:
        """A worker is here, or here again with what it still has."""
        if message.protocol != wire.PROTOCOL:
            return wrong_version(peer, message.protocol)
        worker = self._book.workers.get(message.incarnation)
        effects: list[Effect] = []
        if worker is not None:
            if message.greeting <= worker.greeting.greeting:
                # Said again, or of a connection that is gone: what it lists is overtaken.
                return [Note("ignored an old greeting", {"device": worker.label})]
            self._moved(worker, peer, message, now)
        elif self._is_taken(message):
            text = f"device {message.device.index} still has a living worker: try again"
            return [Send(peer, wire.Refused("device-taken", text, ()))]
        else:
            worker = self._joined(peer, message, now)
            effects.append(Note("worker joined", {"device": worker.label, "pid": message.pid}))
        effects += [
            Watch(message.incarnation, message.pid),
            self._book.welcome(peer, message.greeting),
            *self._reconcile(worker, message, now),
        ]
        return effects

    def _is_taken(self, message: wire.Greet) -> bool:
        return any(one.greeting.worker == message.worker for one in self._book.workers.values())

    def _joined(self, peer: Peer, message: wire.Greet, now: float) -> Worker:
        worker = Worker(message, peer, Ledger(message.device, message.max_jobs), now)
        self._book.workers[message.incarnation] = worker
        self._book.devices[message.worker] = message.device
        self._book.devices_changed = True
        self._book.gathered_at = now
        self._book.left_at.pop(worker.name, None)
        self.by_peer[peer] = worker
        self._take_guests(worker, now)
        return worker

    def _take_guests(self, worker: Worker, now: float) -> None:
        """Jobs that another worker leads have this device too, whoever came back first."""
        led = [one for other in self._book.workers.values() for one in other.leads]
        for job in map(self._book.jobs.__getitem__, (*led, *self._book.adrift)):
            if worker.name in job.places[1:]:
                lease = Lease(
                    job.job_id,
                    job.attempt,
                    worker.ledger.facts.total_bytes,
                    job.key,
                    alone=True,
                    guest=True,
                    beside=ancestors(job, self._book.jobs),
                )
                worker.ledger.adopt(lease, now)

    def _moved(self, worker: Worker, peer: Peer, message: wire.Greet, now: float) -> None:
        """The same incarnation on another connection: what it lacks is in its inventory."""
        self.by_peer.pop(worker.peer, None)
        for job_id in list(worker.leads):
            self.set_adrift(self._book.jobs[job_id], worker, now, now)
        worker.peer = peer
        worker.greeting = message
        worker.last_report = now
        worker.suspect = True
        worker.blobs_sent.clear()
        self.by_peer[peer] = worker

    def lose(self, worker: Worker, now: float) -> list[Effect]:
        """The worker process is gone, and with it every process it kept.

        What it had started only its next incarnation can say; until then its jobs wait.
        """
        facts = {"device": worker.label}
        text, level = (
            ("worker died", "warning") if not worker.leaving else ("worker left", "info")
        )
        effects: list[Effect] = [Note(text, facts, level)]
        if not worker.leaving:
            effects += self._finishing.blame(worker, now)
        until = now + self._settings.return_s
        for job_id in list(worker.leads):
            self.set_adrift(self._book.jobs[job_id], worker, until, now)
        self._book.gathered_at = now
        # Who left by order does not come back in a moment.
        self._book.left_at[worker.name] = -math.inf if worker.leaving else now
        self._book.adrift.note_death(worker.greeting.worker)
        del self._book.workers[worker.incarnation]
        self.by_peer.pop(worker.peer, None)
        self._book.stirred = True
        return effects

    def set_adrift(self, job: Job, worker: Worker, until: float, now: float) -> None:
        """Keep what the job was promised until its worker is heard of again."""
        life = self._book.keeping.life_of(job)
        if job.rides:  # from now on by itself: who is behind it may never have come there
            self._book.queues.adopt(job)
        job.places, job.train = life.places, None
        worker.leads.pop(job.job_id)
        if job.job_id in worker.ledger.leases:
            worker.ledger.release(job.job_id, now)
        self._book.adrift.add(life, until)

    def give_up_absent(self, now: float) -> list[Effect]:
        """Decide about jobs whose worker has not come back in time."""
        effects: list[Effect] = []
        for device in self._book.adrift.overdue(now):
            dead = self._book.adrift.dead(device)
            for life, _ in self._book.adrift.take(device):
                what = "died and did not come back" if dead else "was not heard of again"
                reason = f"the worker of {life.device} {what}"
                job = self._book.jobs[life.job_id]
                # Only its next incarnation proves that nothing of the job is alive.
                effects += self._finishing.lose(job, reason, now, proved_dead=False)
        return effects

    def _reconcile(self, worker: Worker, message: wire.Greet, now: float) -> list[Effect]:
        """Compare what the worker has with what was given to its device."""
        held = {(one.job_id, one.attempt): one for one in message.inventory}
        effects: list[Effect] = []
        settled: list[AttemptId] = []
        never: list[Job] = []
        for life, released in self._book.adrift.take(message.worker):
            job = self._book.jobs[life.job_id]
            mine = held.get((life.job_id, life.attempt))
            verdict = judge(
                mine.state if mine else None,
                same_boot=life.boot_id == message.boot_id,
                same_incarnation=life.incarnation == message.incarnation,
                begun=job.state is State.RUNNING,
            )
            if verdict is Verdict.KEEP:
                assert mine is not None
                effects += self._adopt(job, life, worker, released, now)
                del held[life.job_id, life.attempt]
            elif mine is not None and self._goes_on(job, mine, life, message):
                adopted = self._adopt(job, life, worker, released, now)
                effects += [*self._again(job, worker), *adopted]
                del held[life.job_id, life.attempt]
            elif verdict is Verdict.NEVER:
                never.append(job)
            else:
                if mine is not None and mine.state == "interrupted":
                    settled.append(AttemptId(life.job_id, life.attempt))
                    del held[life.job_id, life.attempt]
                reason = f"the worker of {life.device} died while it ran"
                effects += self._finishing.lose(job, reason, now)
        for job in reversed(never):  # each goes before the others: the first is first again
            effects += self._finishing.give_back(job, "never started: placed again", now)
        for lease in worker.ledger.leases.values():
            # Whoever was beside it was so rightly, though perhaps for reasons now forgotten.
            if lease.measuring or lease.alone:
                lease.beside = lease.beside | (worker.ledger.leases.keys() - {lease.job_id})
        effects += self._unexpected(worker, list(held.values()))
        if settled:
            effects.append(Send(worker.peer, wire.Recorded(self._book.epoch, tuple(settled))))
        return effects

    def _adopt(
        self, job: Job, life: Life, worker: Worker, released: Released | None, now: float
    ) -> list[Effect]:
        """Go on with an attempt that its worker still has."""
        worker.leads[job.job_id] = job.attempt
        job.worker = worker.incarnation
        if worker.name in job.places:
            self._adopt_lease(job, life, worker, now)
        self._book.keeping.touch(job)
        effects: list[Effect] = [Note("its worker still has it", facts_of(job))]
        if released is not None:
            effects.append(Send(worker.peer, wire.Release((released,))))
        if job.cancelling:
            attempt = AttemptId(job.job_id, job.attempt)
            effects += self._book.end_attempts(worker, "terminate", [attempt])
        return effects

    def _goes_on(self, job: Job, mine: Held, life: Life, message: wire.Greet) -> bool:
        """Whether a body that runs in its caller has outlived the worker that watched it."""
        return (
            job.spec.kind in INLINE
            and mine.state == "interrupted"
            and life.boot_id == message.boot_id
            and job.session in self._book.sessions
        )

    def _again(self, job: Job, worker: Worker) -> list[Effect]:
        """Have the next incarnation of a worker watch the same attempt."""
        leases = tuple(
            (there, there.ledger.leases[job.job_id])
            for there in map(self._book.worker_at, job.places)
            if there is not None and job.job_id in there.ledger.leases
        )
        run = run_of(self._book, job, worker, leases)
        fetch = (job.job_id,) if job.stored and job.payload_bytes else ()
        return [Send(worker.peer, wire.Assign(self._book.epoch, (run,)), fetch)]

    def _adopt_lease(self, job: Job, life: Life, worker: Worker, now: float) -> None:
        beside = ancestors(job, self._book.jobs)
        lease = Lease(
            job.job_id,
            job.attempt,
            life.lease_bytes,
            job.key,
            measuring=life.measuring and not self._is_measured(job),
            beside=beside,
            estimate=self._book.estimate(job, worker.ledger.facts),
            alone=life.alone,
            declared=job.spec.share != "",
        )
        worker.ledger.adopt(lease, now)

    def _is_measured(self, job: Job) -> bool:
        """Whether another run of its type is being measured since it was away."""
        found = (worker.ledger.measuring for worker in self._book.workers.values())
        return any(one is not None and one.job_type == job.spec.job_type for one in found)

    def _unexpected(self, worker: Worker, held: list[Held]) -> list[Effect]:
        """What the worker has and should not: ended, someone else's, or never heard of."""
        effects: list[Effect] = []
        running = [one for one in held if one.state == "running"]
        over = [one for one in held if one.state != "running"]
        for one in held:
            if one.job_id not in self._book.jobs:
                self._book.alarms += 1
                facts = {"job": one.job_id, "device": worker.label, "state": one.state}
                effects.append(Note("a worker has a job nobody gave it", facts, "error"))
        effects += self._book.end_attempts(
            worker, "kill", [AttemptId(one.job_id, one.attempt) for one in running]
        )
        return [*effects, *self.answer(worker, over)]

    def answer(self, worker: Worker, over: "list[Held] | list[AttemptId]") -> list[Effect]:
        """Tell a worker that results are safe, or that nobody knows what they are of."""
        ids = [AttemptId(one.job_id, one.attempt) for one in over]
        known = tuple(one for one in ids if one.job_id in self._book.jobs)
        unknown = tuple(one for one in ids if one.job_id not in self._book.jobs)
        effects: list[Effect] = []
        if known:
            effects.append(Send(worker.peer, wire.Recorded(self._book.epoch, known)))
        if unknown:
            effects.append(Send(worker.peer, wire.Unknown(self._book.epoch, unknown)))
        return effects
