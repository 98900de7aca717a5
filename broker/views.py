"""What lists show: rows made from the core's state, never the state itself."""

from typing import Final

from grn_zmq.facts import DeviceRow, JobRow, ProfileRow
from grn_zmq.records import Outcome
from grn_zmq.units import format_bytes

from .cells import Cell, CellId
from .estimates import Estimate
from .jobs import Job, State
from .ledger import Lease
from .needs import as_texts
from .peers import Worker
from .scheduler import Hold

# Enough for every text of ours; an exception can say more, and does so to its caller.
WHY_CHARACTERS: Final = 600
# A device that its holder has not touched for so long is said to idle.
IDLE_S: Final = 60.0


def job_row(
    job: Job,
    lease: Lease | None,
    hold: Hold | None,
    client_pid: int,
    now: float,
    *,
    adrift: bool = False,
) -> JobRow:
    ended_at = now if job.ended_at is None else job.ended_at
    started_at = ended_at if job.started_at is None else job.started_at
    return JobRow(
        number=job.number,
        job_id=job.job_id,
        name=job.spec.name,
        job_type=job.spec.job_type,
        kind=job.spec.kind,
        state=job.state.value,
        why=_why(job, hold, adrift),
        device=job.device,
        attempt=job.attempt,
        priority=job.priority,
        measuring=lease is not None and lease.measuring,
        predicted_bytes=job.predicted_bytes,
        lease_bytes=lease.lease_bytes if lease else 0,
        used_bytes=lease.used_bytes if lease else 0,
        peak_bytes=max(job.peak_bytes, lease.used_bytes if lease else 0),
        wait_s=max(0.0, started_at - job.queued_at),
        run_s=max(0.0, ended_at - started_at),
        client_pid=client_pid,
        title=job.spec.title,
        waits_for=hold.why.value.replace(" ", "-") if hold is not None else "",
        detached=job.spec.detached,
        pid=lease.pid if lease else 0,
        age_s=max(0.0, now - job.queued_at),
        ended_s=None if job.ended_at is None else max(0.0, now - job.ended_at),
        exit_status=job.outcome.exit_status if job.outcome else None,
        signal=job.outcome.signal if job.outcome else None,
        again_of=job.spec.again_of,
        after=job.spec.after,
        gpus=job.spec.gpus,
        share=job.spec.share,
        queue=job.spec.queue,
        resources=job.spec.resources,
        granted=as_texts(job.granted),
        environment=job.spec.environment,
        idle_s=_idle_s(job, lease, now),
    )


def _idle_s(job: Job, lease: Lease | None, now: float) -> float | None:
    """Since when whoever leased a device has not used it; None if it did a moment ago."""
    if lease is None or job.spec.kind != "lease":
        return None
    idle_s = now - lease.used_at
    return idle_s if idle_s >= IDLE_S else None


def _why(job: Job, hold: Hold | None, adrift: bool) -> str:
    if adrift:
        return f"waiting for the worker of {job.device} to come back"
    if job.missing:
        return "waiting for its function to arrive"
    if job.state is State.QUEUED and hold is not None:
        return hold.text[:WHY_CHARACTERS]
    return why_ended(job)


def why_ended(job: Job) -> str:
    """How an ended job ended, in its own words; nothing for a success."""
    if job.outcome is None:
        return ""
    kind, text = job.outcome.error_type, job.outcome.error_text
    if kind == "JobTooLarge" and not text:
        text = _too_large(job.outcome)
    # Our own kinds of end say it all in their text; an exception's name is half of it.
    named = kind and not kind.startswith("Job")
    return (f"{kind}: {text}" if named else text)[:WHY_CHARACTERS]


def _too_large(outcome: Outcome) -> str:
    need, largest = outcome.need_bytes, outcome.largest_bytes
    return f"needs {format_bytes(need)}, the largest device has {format_bytes(largest)}"


def device_row(worker: Worker) -> DeviceRow:
    ledger = worker.ledger
    measuring = ledger.measuring
    return DeviceRow(
        facts=ledger.facts,
        worker_pid=worker.greeting.pid,
        max_jobs=ledger.max_jobs,
        used_bytes=ledger.used_bytes,
        foreign_bytes=ledger.foreign_bytes,
        idle_bytes=ledger.idle_bytes,
        leased_bytes=sum(lease.lease_bytes for lease in ledger.leases.values()),
        jobs=len(ledger.leases),
        measuring=measuring.job_type if measuring else "",
        utilisation=ledger.utilisation,
        temperature_c=ledger.temperature_c,
        processes=ledger.processes,
    )


def profile_row(cell_id: CellId, cell: Cell, estimate: Estimate | None) -> ProfileRow:
    return ProfileRow(
        job_type=cell_id.job_type,
        by=dict(cell_id.by),
        device_class=cell_id.device_class,
        devices=cell_id.devices,
        runs=cell.runs,
        predicted_bytes=estimate.lease_bytes if estimate else 0,
        kind=estimate.kind.value if estimate else "",
        peak_bytes=cell.max_bytes,
        mean_bytes=int(cell.mean_bytes),
        need_bytes=cell.need_bytes,
        bound_bytes=cell.bound_bytes,
        ooms=cell.ooms,
        failures=cell.failures,
        duration_s=cell.duration_s,
        utilisation=cell.utilisation,
    )
