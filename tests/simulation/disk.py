"""A model of the journal: what was committed is there, what was not durable may vanish."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from broker.cells import Cell, CellId
from broker.changes import Batch, Death, End, Kept, KeptJob, KeptSession, Life, NewJob
from broker.specs import digest_of
from grn_zmq.records import Blob


@dataclass
class Tables:
    """What is on the disk. Every value is immutable, so a copy of the tables is a snapshot."""

    jobs: dict[str, NewJob] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    expired: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, KeptSession] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    cells: dict[CellId, Cell] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    # Of which jobs the arguments are gone.
    spent: dict[str, None] = field(default_factory=dict)
    last_number: int = 0
    paused: bool = False
    queues: str = ""

    def copy(self) -> "Tables":
        new = Tables(last_number=self.last_number, paused=self.paused, queues=self.queues)
        for name in self.__dataclass_fields__.keys() - {"last_number", "paused", "queues"}:
            setattr(new, name, getattr(self, name).copy())
        return new

    def apply(self, batch: Batch) -> None:
        """Write one batch; whatever contradicts what is there is a broken promise."""
        every = sorted((*batch.jobs, *of_trains(batch)), key=lambda one: one.number)
        for new in every:
            assert new.spec.job_id not in self.jobs, f"{new.spec.job_id} is kept twice"
            assert new.number > self.last_number, f"number {new.number} was used before"
            self.jobs[new.spec.job_id] = new
            self.last_number = new.number
        self._apply_trains(batch)
        for life in batch.lives:
            assert life.job_id in self.jobs, f"{life.job_id} lives and was never kept"
            assert life.job_id not in self.ends, f"{life.job_id} lives after its end"
            before = self.lives.get(life.job_id)
            assert before is None or before.attempt <= life.attempt, "an older attempt"
            self.lives[life.job_id] = life
        for end in (*batch.ends, *of_arrivals(batch)):
            assert end.job_id in self.jobs, f"{end.job_id} ended and was never kept"
            assert end.job_id not in self.ends, f"{end.job_id} ended twice"
            self.lives.pop(end.job_id, None)
            self.ends[end.job_id] = end
            if not end.keeps_payload:
                self.spent[end.job_id] = None
        if batch.paused is not None:
            self.paused = batch.paused
        if batch.queues is not None:
            self.queues = batch.queues
        self._let_go(batch)
        for name in batch.lost_sessions:
            self.sessions.pop(name, None)
        self.sessions |= {one.name: one for one in batch.sessions}
        self.blobs |= {one.digest: one for one in batch.blobs}
        for digest in batch.lost_blobs:
            self.blobs.pop(digest, None)
        for job_type in batch.forgotten_types:
            self.cells = {one: c for one, c in self.cells.items() if one.job_type != job_type}
        self.cells |= batch.cells
        self.deaths += batch.deaths

    def _apply_trains(self, batch: Batch) -> None:
        """The same as if each of them had been written by itself."""
        for new in of_trains(batch):
            job_id = new.spec.job_id
            self.lives[job_id] = Life(job_id, 0, "queued", priority=new.spec.priority)
        for ride in batch.rides:
            for job_id, attempt in zip(ride.job_ids, ride.attempts, strict=True):
                assert job_id in self.lives, f"{job_id} rides and is not alive"
                assert self.lives[job_id].attempt <= attempt, "an older attempt"
                self.lives[job_id] = replace(ride.like, job_id=job_id, attempt=attempt)

    def _let_go(self, batch: Batch) -> None:
        self.spent |= dict.fromkeys(batch.spent)
        for job_id in batch.expired:
            end = self.ends[job_id]
            self.ends[job_id] = replace(end, outcome=replace(end.outcome, payload=b""))
            self.expired[job_id] = None
        for job_id in batch.forgotten:
            del self.ends[job_id], self.jobs[job_id]


def of_trains(batch: Batch) -> Iterator[NewJob]:
    """Those that were accepted together, one by one."""
    for train in batch.trains:
        pairs = zip(train.job_ids, train.payloads, strict=True)
        for number, (job_id, payload) in enumerate(pairs, train.number):
            spec = replace(train.spec, job_id=job_id, payload=payload)
            yield NewJob(spec, number, train.session, train.queued_at, digest_of(spec))


def of_arrivals(batch: Batch) -> Iterator[End]:
    """Those that ended together, one by one."""
    for one in batch.arrivals:
        columns = (one.job_ids, one.attempts, one.wait_s, one.run_s, one.payloads)
        for job_id, attempt, wait_s, run_s, payload in zip(*columns, strict=True):
            outcome = replace(
                one.like, job_id=job_id, attempts=attempt, wait_s=wait_s, run_s=run_s,
                payload=payload,
            )  # fmt: skip
            yield End(job_id, attempt, outcome, one.ended_at, one.keep_payload)


class SimDisk:
    """The state file of the broker, and the snapshot that a power cut cannot touch."""

    def __init__(self) -> None:
        self.tables = Tables()
        self._safe = Tables()
        self._since: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self.tables.apply(batch)
        self._since.append(batch)
        if batch.durable:
            self._safe, self._since = self.tables.copy(), []

    def cut_power(self, rng: Random) -> None:
        """Lose what was not flushed, from some batch on."""
        self.tables = self._safe.copy()
        for batch in self._since[: rng.randint(0, len(self._since))]:
            self.tables.apply(batch)
        self._safe, self._since = self.tables.copy(), []

    def payload(self, job_id: str) -> bytes:
        return self.tables.jobs[job_id].spec.payload

    def result(self, job_id: str) -> bytes:
        return self.tables.ends[job_id].outcome.payload

    def kept(self, epoch: int) -> Kept:
        """What the next broker starts from, as the journal would give it."""
        tables = self.tables
        return Kept(
            epoch=epoch,
            last_number=tables.last_number,
            jobs=[self._job(one) for one in tables.jobs.values()],
            sessions=list(tables.sessions.values()),
            blobs=list(tables.blobs.values()),
            cells=[(one, replace(cell)) for one, cell in tables.cells.items()],
            deaths=list(tables.deaths),
            paused=tables.paused,
            queues=tables.queues,
        )

    def _job(self, new: NewJob) -> KeptJob:
        spec, job_id = new.spec, new.spec.job_id
        bare = replace(new, spec=replace(spec, payload=b""))
        end = self.tables.ends.get(job_id)
        if end is None:
            life = self.tables.lives[job_id]
            return KeptJob(bare, life=life, payload_bytes=len(spec.payload))
        told = replace(end, outcome=replace(end.outcome, payload=b""))
        return KeptJob(
            bare,
            end=told,
            expired=job_id in self.tables.expired,
            payload_bytes=0 if job_id in self.tables.spent else len(spec.payload),
            result_bytes=len(end.outcome.payload),
        )
