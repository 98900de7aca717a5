"""From how a job ended to what its caller gets: a value, or an error that says why."""

from signal import SIGKILL
from typing import Any, Final

from .errors import (
    JobError,
    JobExited,
    JobFailed,
    JobKilled,
    JobLost,
    JobNotStarted,
    JobOutOfMemory,
    JobTooLarge,
    ResultExpired,
    TimeLimitExceeded,
    WaitTimeout,
)
from .naming import printable
from .payload import Payload, load_value
from .records import JobSpec, Outcome
from .tracebacks import error_text, load_exception

# Errors of which the job itself left no word but what it printed.
_WITH_LAST_LINES: Final = (JobKilled, JobExited, JobLost, TimeLimitExceeded)

_warned: set[str] = set()


def open_outcome(
    outcome: Outcome, spec: JobSpec | None, payload: Payload | None = None
) -> tuple[Any, BaseException | None]:
    """Give the value, or the exception to raise. Only the job's own client may do this.

    Whatever its payload does when it is opened, this returns, unless it hangs.

    Args:
        payload: What the job gave; None for what was let go, if it travelled as a file.
    """
    if payload is None and not outcome.token:
        payload = outcome.payload
    try:
        if outcome.outcome != "succeeded":
            error = _error(outcome, spec, payload or b"")
            tell_last_lines(error, outcome.last_lines)
            return None, error
        if payload is None:
            return None, _expired(outcome)
        if not len(payload):
            return outcome.exit_status, None  # a command, or an inline job
        return load_value(payload), None
    except BaseException as error:  # whatever the value does must not end its receiver
        return None, _unreadable(outcome, error)


def _error(outcome: Outcome, spec: JobSpec | None, payload: Payload) -> BaseException:
    job_id, job_type = outcome.job_id, spec.job_type if spec else ""
    match outcome.outcome:
        case "oom":
            return _out_of_memory(outcome, job_type, payload)
        case "killed":
            return JobKilled(job_id, signal=outcome.signal or SIGKILL, job_type=job_type)
        case "lost":
            return JobLost(job_id, outcome.error_text, job_type)
        case "expired":
            return WaitTimeout(job_id, outcome.error_text, job_type)
        case "timed-out":
            return TimeLimitExceeded(job_id, outcome.error_text, job_type)
    match outcome.error_type:
        case "JobExited":
            return JobExited(job_id, exit_status=outcome.exit_status or 0, job_type=job_type)
        case "JobNotStarted":
            return JobNotStarted(job_id, outcome.error_text, job_type)
        case "JobTooLarge":
            return JobTooLarge(
                job_id,
                job_type=job_type or "this job",
                need_bytes=outcome.need_bytes,
                largest_bytes=outcome.largest_bytes,
                declared_by=_declared_by(outcome, spec),
            )
    if len(payload):
        return load_exception(payload, job_id)
    return JobError(job_id, f"job {job_id} {outcome.outcome}: {outcome.error_text}")


def tell_last_lines(error: BaseException, last_lines: str) -> None:
    """Let errors of ours end with what the job printed last; those of jobs stay as they are."""
    if not isinstance(error, JobError):
        return
    error.last_lines = last_lines
    if last_lines.strip() and isinstance(error, _WITH_LAST_LINES):
        lines = last_lines.expandtabs().strip("\r\n").splitlines()
        told = "\n".join(f"    {printable(line)}".rstrip() for line in lines)
        error.args = (f"{error.summary}. Its last lines:\n{told}",)


def _declared_by(outcome: Outcome, spec: JobSpec | None) -> str:
    """Name the option by which the user said what does not fit; nothing if it was measured."""
    if spec is None or not spec.memory_bytes or outcome.need_bytes != spec.memory_bytes:
        return ""
    return "--memory" if spec.kind == "command" else "memory="


def _out_of_memory(outcome: Outcome, job_type: str, payload: Payload) -> BaseException:
    """Raise as the job did, so that its own `except` clauses work; add what the broker saw."""
    ours = JobOutOfMemory(
        outcome.job_id,
        outcome.error_text,
        peak_bytes=outcome.peak_bytes,
        device=outcome.device,
        attempts=outcome.attempts,
        job_type=job_type,
    )
    if not len(payload):
        return ours
    raised = load_exception(payload, outcome.job_id)
    if isinstance(raised, JobFailed):
        ours.__cause__ = raised  # it could not travel; whoever catches MemoryError shall get it
        return ours
    raised.add_note(str(ours))
    return raised


def _unreadable(outcome: Outcome, error: BaseException) -> BaseException:
    what = "returned, but its value" if outcome.outcome == "succeeded" else "raised what"
    return JobFailed(
        outcome.job_id,
        error_type=type(error).__name__,
        error_text=f"the job {what} cannot be unpickled here: {error_text(error)}",
        traceback_text="",
    )


def _expired(outcome: Outcome) -> BaseException:
    return ResultExpired(
        outcome.job_id,
        f"job {outcome.job_id} succeeded, but what it returned was let go since",
    )


def warn_about(outcome: Outcome, spec: JobSpec | None) -> None:
    """Say once per job type that a job on a GPU was never seen to use one."""
    unseen = outcome.device.startswith("nvml") and outcome.outcome == "succeeded"
    if spec is None or not unseen or outcome.seen or spec.job_type in _warned:
        return
    if spec.kind == "lease":
        return  # nothing is learned from it; who holds devices and idles is shown in lists
    _warned.add(spec.job_type)
    from loguru import logger

    logger.warning(
        f"{spec.job_type} was never seen to use its GPU ({outcome.device}). If it does use "
        f"it, start the broker where process ids are visible (in Docker: --pid=host)"
    )
