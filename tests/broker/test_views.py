"""What rows say of a job's end."""

from dataclasses import replace

from broker.jobs import Job
from broker.views import WHY_CHARACTERS, job_row
from grn_zmq.units import MIB, TIB
from tests.builders import a_job, an_outcome


def why(job: Job) -> str:
    return job_row(job, None, None, 900, 1.0).why


def test_a_job_that_is_too_large_says_both_numbers() -> None:
    job = a_job()
    job.outcome = an_outcome(
        outcome="failed",
        error_type="JobTooLarge",
        need_bytes=5 * TIB,
        largest_bytes=300 * MIB,
    )

    assert why(job) == "needs 5.0 TiB, the largest device has 300.0 MiB"


def test_a_report_is_whole_and_what_others_write_is_cut() -> None:
    job = a_job()
    report = "fit ran out of memory " + "x" * 500
    job.outcome = an_outcome(outcome="oom", error_type="JobOutOfMemory", error_text=report)
    assert why(job) == report

    job.outcome = replace(job.outcome, error_type="ValueError", error_text="y" * 5000)
    assert why(job) == "ValueError: " + "y" * (WHY_CHARACTERS - len("ValueError: "))
