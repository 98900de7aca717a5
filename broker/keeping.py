"""From the state of jobs to what the journal keeps of them, once in every turn of the loop."""

from collections.abc import Container, Mapping
from dataclasses import replace

from .adrift import Adrift
from .changes import Batch, Changes, End, Life, NewJob
from .jobs import LEASED, Job, State
from .needs import as_texts
from .peers import Worker
from .specs import shared


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
            places=job.places,
            granted=as_texts(job.granted),
        )
        return life_on(self._workers[job.worker], life) if job.state in LEASED else life


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
