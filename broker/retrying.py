"""Whether a job that ended badly is run again: as often, and for the causes, its user said."""

from collections.abc import Sequence
from typing import Final

from .jobs import Job

# What a job may be retried for besides exceptions, by the outcome of the attempt.
CAUSES: Final = {"lost": "lost", "killed": "killed", "timed-out": "time-limit"}


def may_retry(job: Job, outcome: str, error_type: str = "", bases: Sequence[str] = ()) -> bool:
    """Whether this end of an attempt is one that the job's retries are for.

    Args:
        bases: The names of its exception's class and of all that one's bases.
    """
    spec = job.spec
    if job.retried >= spec.retries or error_type == "JobNotStarted":
        return False
    cause = CAUSES.get(outcome)
    if cause is None and outcome != "failed":
        return False
    if not spec.retry_on:
        return True
    if cause is None and error_type == "JobExited":
        cause = "exit"
    names = {cause} if cause else {error_type, *bases}
    return not names.isdisjoint(spec.retry_on)
