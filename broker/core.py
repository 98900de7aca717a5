"""The broker's decisions: messages in, effects out, time is an argument."""

from dataclasses import replace
from math import inf

from grn_zmq import wire
from grn_zmq.batches import batches, share_of_message
from grn_zmq.records import Run
from grn_zmq.tails import NO_TAIL, Tail

from .book import Book, facts_of
from .cancelling import Cancelling
from .changes import Batch, Kept
from .clients import Clients
from .effects import Effect, Note, Peer, Send
from .ends import outcome_without_result
from .fleet import Fleet
from .gating import Gating
from .invariants import check
from .jobs import Job, Step
from .listing import Listing
from .orders import Orders
from .peers import Session, Worker, label_of
from .placing import Leases, NeedsRoom, Placed, Placer, RefusedJob
from .profiles import Profiles
from .queueing import Queueing
from .reasons import Reasons
from .restoring import restore
from .retention import Retention
from .runs import run_of
from .scheduler import Hold
from .settings import Settings
from .stopping import Stopping


class BrokerCore:
    """One broker. `epoch` fences off what an earlier one said."""

    def __init__(
        self,
        epoch: int,
        pid: int,
        settings: Settings | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self._settings = settings = settings or Settings()
        self.book = book = Book(epoch, pid, profiles or Profiles(), settings)
        self._fleet = Fleet(book, settings)
        self._placer = Placer(book, settings)
        self._cancelling = Cancelling(book)
        self._gating = Gating(book, self._cancelling)
        self._reasons = Reasons(book, self._placer.why)
        self.retention = Retention(book)
        listing = Listing(book, self._reasons.why)
        self._clients = Clients(
            book, settings, self._cancelling, listing, self._fleet.boarding, self.retention
        )
        queueing = Queueing(book, settings, self._cancelling)
        self._orders = Orders(
            book, self._placer, self._reasons, listing, self.retention, queueing
        )
        self._stopping = Stopping(book, self._cancelling)

    def restore(self, kept: Kept, now: float) -> list[Effect]:
        """Go on where an earlier broker was when it died."""
        effects = restore(self.book, self._cancelling, self._settings, kept, now)
        return [*effects, *self._gating.go_on(now)]

    def take_batch(self) -> Batch:
        """Give what has changed since the last time: to be kept before anything is sent."""
        return self.book.keeping.take()

    def handle(self, peer: Peer, message: wire.Message, now: float) -> list[Effect]:
        """React to one message, then place whatever can be placed."""
        return [*self.react(peer, message, now), *self.go_on(now)]

    def lose(self, name: str, now: float) -> list[Effect]:
        """A watched process is gone: a worker by its incarnation, a client by its session."""
        if worker := self.book.workers.get(name):
            effects = self._fleet.lose(worker, now)
        elif session := self.book.sessions.get(name):
            effects = self._clients.lose(session, now)
        else:
            return []
        return [*effects, *self.go_on(now)]

    def client_of(self, peer: Peer) -> Session | None:
        """The client that spoke on this connection, if it is one."""
        return self._clients.by_peer(peer)

    def disconnected(self, peer: Peer, now: float) -> None:
        """A connection has gone; whose process lives may come back on another."""
        self._clients.disconnected(peer, now)

    def absent(self, now: float) -> list[Session]:
        """The clients that are about to be given up, though their processes live."""
        return [self.book.sessions[name] for name in self._clients.absent(now)]

    def excuse(self, session: Session, now: float) -> None:
        """This one stands still, by Ctrl-Z or in a debugger: its jobs go on."""
        self._clients.excuse(session.name, now)

    def spoil(self, job_id: str, why: str, now: float) -> list[Effect]:
        """What this job needs cannot be read: it ends without having begun."""
        return [*self._fleet.spoil(job_id, why, now), *self.go_on(now)]

    def lose_value(self, job_id: str) -> list[Effect]:
        """The value of this ended job cannot be read: let it go, so that nobody asks again."""
        job = self.book.jobs.get(job_id)
        return self.retention.let_go_of_result(job) if job and not job.expired else []

    def is_live(self, job_id: str) -> bool:
        """Whether there is such a job, and it has not ended."""
        job = self.book.jobs.get(job_id)
        return job is not None and job.live

    def set_disk_full(self, full: bool) -> None:
        """Take no more jobs while there is no room to keep them."""
        self._clients.admission.disk_full = full

    def tick(self, now: float) -> list[Effect]:
        """Notice who has fallen silent, and let go of what nobody will ask for."""
        effects = self.retention.forget_old(now)
        for name in self._clients.absent(now):
            effects += self._clients.lose(self.book.sessions[name], now)
        self.book.stirred = True  # reservations and patience run out with time
        for worker in self.book.workers.values():
            worker.ledger.opened = True
        return [*effects, *self._fleet.tick(now), *self.go_on(now)]

    @property
    def next_due(self) -> float:
        """When a tick is wanted at the latest, because somebody's time is over."""
        book = self.book
        dues = (book.patience.next_due, book.adrift.next_due, book.gates.next_due)
        return min((due for due in dues if due is not None), default=inf)

    def why(self, job: Job, now: float) -> Hold | None:
        """What a queued job waits for; None if it waits for nothing."""
        return self._reasons.why(job, now)

    def check(self) -> None:
        """Assert the invariants."""
        check(self.book)

    def react(self, peer: Peer, message: wire.Message, now: float) -> list[Effect]:
        """React to one message; once all that have come are heard, `go_on` is due."""
        if isinstance(message, wire.Greet):
            return self._fleet.on_greet(peer, message, now)
        if isinstance(message, wire.Hello):
            return self._clients.on_hello(peer, message)
        if worker := self._fleet.by_peer(peer):
            return self._fleet.react(worker, message, now)
        if session := self._clients.by_peer(peer):
            if isinstance(message, wire.Stop):
                return self._stopping.on_stop(peer, message, now)
            if isinstance(message, wire.Order):
                return self._orders.react(session, message, now)
            return self._clients.react(session, message, now)
        return [
            Note("a stranger spoke before greeting", {"kind": message.kind}, "debug"),
            Send(peer, wire.Refused("greet-first", "greet before anything else", ())),
        ]

    def go_on(self, now: float) -> list[Effect]:
        """Place what can be placed, and give up whose time is over."""
        effects = self._gating.go_on(now)
        while True:
            effects += self._place(now)
            impatient = self.book.patience.over(now)
            if impatient:
                why = {job.job_id: self._reason(job, now) for job in impatient}
                effects += self._cancelling.expire(now, why)
            effects += self._stopping.go_on(now)
            if not (impatient or self.book.gates.stirred):
                return effects
            # Some waited for those that ended just now, or a device was kept for them.
            effects += self._gating.go_on(now)

    def _reason(self, job: Job, now: float) -> str:
        hold = self._reasons.why(job, now)
        return hold.text if hold else "waiting for its turn"

    def _place(self, now: float) -> list[Effect]:
        """Place what can be placed; whom a refused job had kept waiting is looked at again."""
        effects: list[Effect] = []
        ends = -1
        while not (self.book.stopping or self.book.paused) and ends != self.book.ends:
            ends = self.book.ends
            effects += self._pass(now)
        return effects

    def _pass(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        everything, self.book.stirred = self.book.stirred, False
        if not (everything or self.book.waiting.fresh):
            return effects
        runs: dict[str, list[Run]] = {}
        for verdict in self._placer.run(now, everything=everything):
            match verdict:
                case Placed(job, worker, leases):
                    effects.append(self._assign(job, worker, leases))
                    tail = self._board(job, worker, leases, now)
                    run = run_of(self.book, job, worker, leases, tail)
                    runs.setdefault(worker.incarnation, []).append(run)
                case RefusedJob(job, need_bytes, largest_bytes, text):
                    kind = "JobNotStarted" if text else "JobTooLarge"
                    outcome = outcome_without_result(job, now, kind, text)
                    outcome = replace(
                        outcome, need_bytes=need_bytes, largest_bytes=largest_bytes
                    )
                    effects += self.book.end(job, Step.REFUSE, outcome, now)
                case NeedsRoom(worker):
                    worker.idle_asked = True
                    effects.append(Send(worker.peer, wire.EndIdle("")))
        for incarnation, assigned in runs.items():
            effects += self._sends(self.book.workers[incarnation], assigned)
        return effects

    def _board(self, job: Job, worker: Worker, leases: Leases, now: float) -> Tail:
        """Let others like it follow a job that is placed."""
        waiting = self.book.waiting.like(job)
        if waiting is None or not leases:
            return NO_TAIL
        return self._fleet.boarding.board(job, worker, leases[0][1], waiting, now)

    def _assign(self, job: Job, worker: Worker, leases: Leases) -> Note:
        job.take(Step.PLACE)
        job.attempt += 1
        job.worker = worker.incarnation
        job.places = tuple(one.name for one, _ in leases)
        job.device = label_of([one for one, _ in leases])
        worker.leads[job.job_id] = job.attempt
        lease = leases[0][1] if leases else None
        measuring = lease is not None and lease.measuring
        found = lease.estimate if lease else None
        job.predicted_bytes = found.expected_bytes if found else 0
        job.runs_stand_in = measuring and job.spec.has_stand_in and not job.stand_in_done
        self.book.keeping.touch(job)
        lease_bytes = lease.lease_bytes if lease else 0
        facts = {**facts_of(job), "lease_bytes": lease_bytes, "measuring": measuring}
        return Note("placed", facts)

    def _sends(self, worker: Worker, runs: list[Run]) -> list[Effect]:
        """Assign the runs in messages of bounded size, what they share before them."""
        effects: list[Effect] = []
        shared = {digest for run in runs for digest in (run.function, run.context) if digest}
        for digest in sorted(shared - worker.blobs_sent):
            blob = self.book.blobs.get(digest)
            if blob is not None:
                effects.append(Send(worker.peer, wire.Blobs((blob,))))
                worker.blobs_sent.add(digest)
        sized = [(run, self._share(run)) for run in runs]
        for batch in batches(sized, most=wire.MAX_JOBS_PER_MESSAGE):
            message = wire.Assign(self.book.epoch, tuple(batch))
            jobs = [self.book.jobs[run.job_id] for run in batch]
            fetch = tuple(
                one.job_id
                for one in jobs
                if one.stored and len(one.payload) < one.payload_bytes
            )
            effects.append(Send(worker.peer, message, fetch))
        return effects

    def _share(self, run: Run) -> float:
        texts = (
            *(run.job_type, run.session, run.function, run.context, run.stdin, run.token),
            *(run.name, run.environment, *run.prefix, str(run.granted)),
            *(text for pair in run.variables.items() for text in pair),
        )
        texts = (*texts, *run.tail.job_ids)
        size = self.book.jobs[run.job_id].payload_bytes + sum(map(len, run.tail.payloads))
        return share_of_message(*texts, payload_bytes=size)
