"""What a client is told about the end of a job, with a result or without."""

from typing import Final

from grn_zmq.records import Outcome, Result

from .jobs import Job

# Of an error in the facts of a hook; `grn show` has the rest.
MOST_ERROR: Final = 2000


def outcome_of(job: Job, result: Result, now: float) -> Outcome:
    """What the client is told about a job that ran."""
    started_at = now if job.started_at is None else job.started_at
    return Outcome(
        job_id=job.job_id,
        outcome=result.outcome,
        exit_status=result.exit_status,
        signal=result.signal,
        device=job.device,
        peak_bytes=job.peak_bytes,
        seen=result.seen or job.submitted_jobs,  # it used devices through its jobs
        wait_s=max(0.0, started_at - job.queued_at),
        run_s=result.run_s,
        attempts=job.attempt,
        predicted_bytes=job.predicted_bytes,
        fit=0,
        error_type=result.error_type,
        error_text=result.error_text,
        need_bytes=0,
        largest_bytes=0,
        payload=result.payload,
        last_lines=result.last_lines,
        token=result.token,
        token_bytes=result.token_bytes,
    )


def outcome_without_result(
    job: Job, now: float, error_type: str = "", error_text: str = ""
) -> Outcome:
    """What the client is told about a job of which no result came."""
    started_at = now if job.started_at is None else job.started_at
    return Outcome(
        job_id=job.job_id,
        outcome="lost",
        exit_status=None,
        signal=None,
        device=job.device,
        peak_bytes=job.peak_bytes,
        seen=True,
        wait_s=max(0.0, started_at - job.queued_at),
        run_s=max(0.0, now - started_at),
        attempts=job.attempt,
        predicted_bytes=job.predicted_bytes,
        fit=0,
        error_type=error_type,
        error_text=error_text,
        need_bytes=0,
        largest_bytes=0,
        payload=b"",
    )


def end_facts(job: Job) -> dict[str, object]:
    """What a hook is told about a job that has ended."""
    outcome = job.outcome
    assert outcome is not None
    return {
        "job_id": job.job_id,
        "number": job.number,
        "job_name": job.spec.name,
        "job_type": job.spec.job_type,
        "command": job.spec.title,
        "outcome": outcome.outcome,
        "exit_status": outcome.exit_status,
        "signal": outcome.signal,
        "device": outcome.device,
        "peak_bytes": outcome.peak_bytes,
        "wait_s": round(outcome.wait_s, 3),
        "run_s": round(outcome.run_s, 3),
        "attempts": outcome.attempts,
        "error": outcome.error_text[:MOST_ERROR],
    }
