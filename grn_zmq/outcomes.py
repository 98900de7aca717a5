"""From how a job ended to what its caller gets: a value, or an error that says why."""

from signal import SIGKILL
from typing import Any

from .errors import (
    JobError,
    JobExited,
    JobFailed,
    JobKilled,
    JobLost,
    JobNotStarted,
    JobOutOfMemory,
    JobTooLarge,
)
from .payload import load_value
from .records import JobSpec, Outcome
from .tracebacks import load_exception

_warned: set[str] = set()


def open_outcome(outcome: Outcome, spec: JobSpec | None) -> tuple[Any, BaseException | None]:
    """Give the value, or the exception to raise. Only the job's own client may do this."""
    if outcome.outcome != "succeeded":
        return None, _error(outcome, spec)
    if not outcome.payload:
        return outcome.exit_status, None  # a command, or an inline job
    try:
        return load_value(outcome.payload), None
    except Exception as error:
        return None, _unreadable(outcome, error)


def _error(outcome: Outcome, spec: JobSpec | None) -> BaseException:
    job_id, job_type = outcome.job_id, spec.job_type if spec else ""
    if outcome.outcome == "oom":
        return _out_of_memory(outcome, job_type)
    if outcome.outcome == "killed":
        return JobKilled(job_id, signal=outcome.signal or SIGKILL, job_type=job_type)
    if outcome.outcome == "lost":
        return JobLost(job_id, outcome.error_text, job_type)
    if outcome.error_type == "JobExited":
        return JobExited(job_id, exit_status=outcome.exit_status or 0, job_type=job_type)
    if outcome.error_type == "JobNotStarted":
        return JobNotStarted(job_id, outcome.error_text, job_type)
    if outcome.error_type == "JobTooLarge":
        return JobTooLarge(
            job_id,
            job_type=job_type or "this job",
            need_bytes=outcome.need_bytes,
            largest_bytes=outcome.largest_bytes,
            declared_by=_declared_by(outcome, spec),
        )
    if outcome.payload:
        return load_exception(outcome.payload, job_id)
    return JobError(job_id, f"job {job_id} {outcome.outcome}: {outcome.error_text}")


def _declared_by(outcome: Outcome, spec: JobSpec | None) -> str:
    """Name the option by which the user said what does not fit; nothing if it was measured."""
    if spec is None or not spec.memory_bytes or outcome.need_bytes != spec.memory_bytes:
        return ""
    return "--memory" if spec.kind == "command" else "memory="


def _out_of_memory(outcome: Outcome, job_type: str) -> BaseException:
    """Raise as the job did, so that its own `except` clauses work; add what the broker saw."""
    ours = JobOutOfMemory(
        outcome.job_id,
        outcome.error_text,
        peak_bytes=outcome.peak_bytes,
        device=outcome.device,
        attempts=outcome.attempts,
        job_type=job_type,
    )
    if not outcome.payload:
        return ours
    raised = load_exception(outcome.payload, outcome.job_id)
    if isinstance(raised, JobFailed):
        ours.__cause__ = raised  # it could not travel; whoever catches MemoryError shall get it
        return ours
    raised.add_note(str(ours))
    return raised


def _unreadable(outcome: Outcome, error: Exception) -> BaseException:
    return JobFailed(
        outcome.job_id,
        error_type=type(error).__name__,
        error_text=f"the job returned, but its value cannot be unpickled here: {error}",
        traceback_text="",
    )


def warn_about(outcome: Outcome, spec: JobSpec | None) -> None:
    """Say once per job type that a job on a GPU was never seen to use one."""
    unseen = outcome.device.startswith("nvml") and outcome.outcome == "succeeded"
    if spec is None or not unseen or outcome.seen or spec.job_type in _warned:
        return
    _warned.add(spec.job_type)
    from loguru import logger

    logger.warning(
        f"{spec.job_type} was never seen to use its GPU ({outcome.device}). If it does use "
        f"it, start the broker where process ids are visible (in Docker: --pid=host)"
    )
