"""From how an attempt ended to what the broker is told of it."""

from dataclasses import replace
from signal import SIGABRT, SIGKILL
from typing import Final

from grn_zmq import oom
from grn_zmq.records import Result

from .events import Gone, Returned
from .runs import ActiveRun

# Of the name and text of an exception, in characters: messages are bounded.
MOST_SAID: Final = 8192


def result_of(
    active: ActiveRun, now: float, outcome: str, error_type: str = "", error_text: str = ""
) -> Result:
    """Say that an attempt ended now, in this way."""
    began_at = now if active.began_at is None else active.began_at
    measured = active.measured
    return Result(
        job_id=active.run.job_id,
        attempt=active.run.attempt,
        outcome=outcome,
        exit_status=None,
        signal=None,
        peak_bytes=measured.peak_bytes,
        need_bytes=measured.need_bytes,
        asked_bytes=0,
        utilisation=measured.utilisation,
        mean_utilisation=measured.mean_utilisation,
        seen=measured.seen,
        run_s=max(0.0, now - began_at),
        error_type=_sayable(error_type),
        error_text=_sayable(error_text),
        payload=b"",
        last_lines="" if outcome == "succeeded" else active.last_lines,
    )


def result_of_limit(active: ActiveRun, now: float) -> Result:
    """Say that an attempt ran for longer than it may, whatever it said at its end."""
    limit_s = active.run.time_limit_s or 0.0
    text = f"it ran longer than its time limit of {limit_s:g} s"
    return result_of(active, now, "timed-out", "TimeLimitExceeded", text)


def result_of_return(active: ActiveRun, returned: Returned, now: float) -> Result:
    """Say how an attempt ended whose function came back."""
    if active.timed_out:
        return replace(result_of_limit(active, now), exit_status=returned.exit_status)
    asked_bytes = None if active.asked_to_end else returned.asked_bytes
    ran_out = asked_bytes is not None and bool(active.run.devices)
    outcome = "oom" if ran_out else returned.outcome
    return replace(
        result_of(active, now, outcome, returned.error_type, returned.error_text),
        exit_status=returned.exit_status,
        asked_bytes=asked_bytes or 0 if ran_out else 0,
        payload=returned.payload,
        error_bases=tuple(map(_sayable, returned.error_bases)),
        token=returned.token,
    )


def plain_return(payload: bytes) -> Returned:
    """Say that a function has returned a value, and nothing else."""
    return Returned("succeeded", None, "", "", payload, reusable=True)


def result_of_exit(active: ActiveRun, gone: Gone, now: float, *, on_host: bool) -> Result:
    """Say how an attempt ended whose process left without a word of its own."""
    if active.timed_out:
        result = result_of_limit(active, now)
        return replace(result, exit_status=gone.exit_status, signal=gone.signal)
    if active.leaving:
        return result_of(active, now, "lost", "JobLost", "its worker was stopped")
    asked_bytes = None if active.asked_to_end else _asked_bytes(active, gone, on_host)
    if gone.signal is not None:
        text = f"killed by signal {gone.signal}"
        if asked_bytes is not None and gone.signal == SIGKILL:
            text += " by the kernel, which had no memory left"
        result = replace(result_of(active, now, "killed", "", text), signal=gone.signal)
    elif active.run.kind == "command" and not gone.exit_status:
        return replace(result_of(active, now, "succeeded"), exit_status=0)
    else:
        status = gone.exit_status or 0
        text = f"exited with status {status}"
        result = replace(
            result_of(active, now, "failed", "JobExited", text), exit_status=status
        )
    if asked_bytes is None or not active.run.devices:
        return result  # what it was promised no memory of, it cannot have run out of
    return replace(result, outcome="oom", asked_bytes=asked_bytes)


def _asked_bytes(active: ActiveRun, gone: Gone, on_host: bool) -> int | None:
    """Say what it could not get, if that was its end: by the kernel, or by its last words."""
    if gone.signal == SIGKILL:
        return 0 if on_host and gone.kernel_oom else None
    # An exception that nobody catches ends a C++ program by SIGABRT.
    if gone.exit_status or gone.signal == SIGABRT:
        return oom.asked_in(active.last_words, on_host=on_host)
    return None


def _sayable(text: str) -> str:
    """Make what the user's code said fit a message; the payload has it in full."""
    return text[:MOST_SAID].encode(errors="backslashreplace").decode()[:MOST_SAID]
