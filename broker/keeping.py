"""From the state of jobs to what the journal keeps of them, once in every turn of the loop."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from .adrift import Adrift
from .changes import Arrival, Batch, Changes, End, Life, NewJob, NewTrain, Ride
from .jobs import LEASED, Job, State
from .needs import as_texts
from .peers import Worker
from .specs import shared

# What the life of a job says that is placed for the first time.
_NO_STORY: Final[dict[str, Any]] = {
    one.name: one.default
    for one in fields(Life)
    if one.name
    in ("unstarted", "retried", "ooms", "peak_bytes", "tried", "was_gated", "submitted_jobs")
}


class Keeping:
    """Which jobs were touched since the last batch, and what is to be kept of them."""

    def __init__(
        self, workers: Mapping[str, Worker], adrift: Adrift, retriable: Container[str]
    ) -> None:
        self.changes = Changes()
        self._retriable = retriable
        self._workers = workers
        self._adrift = adrift
        self._touched: dict[str, Job] = {}

    def touch(self, job: Job) -> None:
        """Something about this job is to be kept."""
        self._touched[job.job_id] = job

    def accept(self, train: NewTrain) -> None:
        """These jobs are new."""
        self.changes.batch.trains.append(train)
        self.changes.batch.durable |= train.spec.detached

    def ride(self, holder: Job, riders: Sequence[Job]) -> None:
        """These jobs were placed behind another, in its lease; who has a story, by itself."""
        fresh = [one for one in riders if one.attempt == 1 and not one.opened_at]
        if len(fresh) < len(riders):
            for one in riders:
                if one.attempt > 1 or one.opened_at:
                    self.touch(one)
        if fresh:
            like = replace(self.life_of(holder), job_id="", attempt=0, **_NO_STORY)
            job_ids = tuple([one.job_id for one in fresh])
            self.changes.batch.rides.append(Ride(like, job_ids, (1,) * len(fresh)))
            self.changes.batch.durable |= holder.spec.detached

    def arrive(self, arrival: Arrival, *, durable: bool) -> None:
        """These jobs have ended, whatever else there was to be kept of them."""
        self.changes.batch.durable |= durable
        if self._touched:
            for job_id in arrival.job_ids:
                self._touched.pop(job_id, None)
        self.changes.batch.arrivals.append(arrival)

    def take(self) -> Batch:
        """Give the batch of this turn; what is in it need not be in memory any longer."""
        touched, self._touched = self._touched, {}
        batch = self.changes.batch
        for job in touched.values():
            if job.state is State.QUEUED and job.missing:
                continue  # not accepted before all it needs is here
            batch.durable |= job.spec.detached
            if not job.stored:
                batch.jobs.append(
                    NewJob(job.spec, job.number, job.session, job.queued_at, job.digest)
                )
            if job.live:
                batch.lives.append(self.life_of(job))
            else:
                batch.ends.append(_end_of(job, keeps_payload=job.job_id in self._retriable))
            job.stored = True
            job.spec = shared(job.spec)
        return self.changes.take()

    def life_of(self, job: Job) -> Life:
        """What is to be kept of a live job."""
        known = self._adrift.life(job.job_id)
        if known is not None:
            return replace(known, cancelling=job.cancelling, submitted_jobs=job.submitted_jobs)
        life = Life(
            job_id=job.job_id,
            attempt=job.attempt,
            state=(State.ASSIGNED if job.state in LEASED else State.QUEUED).value,
            device=job.device,
            runs_stand_in=job.runs_stand_in,
            stand_in_done=job.stand_in_done,
            cancelling=job.cancelling,
            submitted_jobs=job.submitted_jobs,
            wary=job.wary,
            level=job.level,
            ooms=job.ooms,
            unstarted=job.unstarted,
            retried=job.retried,
            peak_bytes=job.peak_bytes,
            predicted_bytes=job.predicted_bytes,
            priority=job.priority,
            held=job.held,
            tried=job.tried,
            was_gated=job.opened_at > 0.0 or job.gated,
            places=job.train.holder.places if job.train else job.places,
            granted=as_texts(job.granted),
        )
        if job.state not in LEASED:
            return life
        life = life_on(self._workers[job.worker], life)
        train = job.train
        return replace(life, lease_bytes=train.lease_bytes) if train and job.rides else life


def life_on(worker: Worker, life: Life) -> Life:
    """The same, with where the job was placed and what it was promised there."""
    life = replace(
        life,
        worker=worker.name,
        incarnation=worker.incarnation,
        boot_id=worker.greeting.boot_id,
    )
    lease = worker.ledger.leases.get(life.job_id)
    if lease is None:  # it needs no device
        return life
    return replace(
        life, lease_bytes=lease.lease_bytes, measuring=lease.measuring, alone=lease.alone
    )


def _end_of(job: Job, *, keeps_payload: bool) -> End:
    assert job.outcome is not None
    assert job.ended_at is not None
    end = End(job.job_id, job.attempt, job.outcome, job.ended_at, keeps_payload)
    job.outcome = replace(job.outcome, payload=b"") if job.outcome.payload else job.outcome
    return end
