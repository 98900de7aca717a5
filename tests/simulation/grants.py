"""Whether what was promised on a device was there to be promised."""

from collections.abc import Iterator

from broker.book import Book
from broker.jobs import Job
from broker.ledger import Ledger


def judge_grants(book: Book, story: list[tuple[str, object]]) -> None:
    """Check each grant against what was promised and measured when it was made.

    Args:
        story: What one event led to: jobs that were "placed" or "ended", by their numbers.
    """
    by_number: dict[object, Job] = {job.number: job for job in book.jobs.values()}
    jobs = [(what, by_number[number]) for what, number in story]
    for at, (what, job) in enumerate(jobs):
        if what != "placed":
            continue
        later = {one.job_id for what, one in jobs[at + 1 :] if what == "placed"}
        still = {one.job_id for what, one in jobs[at + 1 :] if what == "ended"}
        exempt = _exempt(book, job, later | {job.job_id}, still)
        for name in job.places:
            worker = book.worker_at(name)
            if worker is not None:
                _judge_grant(job, worker.ledger, exempt, later)


def _judge_grant(job: Job, ledger: Ledger, exempt: set[str], later: set[str]) -> None:
    promised = sum(
        max(lease.lease_bytes, lease.used_bytes)
        for job_id, lease in ledger.leases.items()
        if job_id not in exempt and job_id not in later
    )
    total = promised + ledger.foreign_bytes + ledger.idle_bytes
    nothing = ledger.leases[job.job_id].lease_bytes == 0
    assert nothing or total <= ledger.facts.total_bytes, (
        f"{job.job_id} was granted on {job.device}: {total} of {ledger.facts.total_bytes} bytes"
    )


def _exempt(book: Book, job: Job, later: set[str], still: set[str]) -> set[str]:
    """Who waits for this job: its ancestors, or everybody if nobody would ever end."""
    ancestors = set(_ancestors(book, job))
    leased = {
        job_id
        for worker in book.workers.values()
        for job_id in worker.leads
        if job_id not in later
    }
    waiting = {
        child.spec.parent
        for child in book.jobs.values()
        if (child.live or child.job_id in still) and not child.spec.detached
    }
    return ancestors | leased if ancestors and leased <= waiting else ancestors


def _ancestors(book: Book, job: Job) -> Iterator[str]:
    parent = book.jobs.get(job.spec.parent)
    while parent is not None and parent.live:
        yield parent.job_id
        parent = book.jobs.get(parent.spec.parent)
