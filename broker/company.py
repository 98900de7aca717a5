"""Who does not count against a job: its ancestors, who wait for it."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from .jobs import Job
from .ledger import NOBODY
from .peers import Worker


@dataclass(frozen=True, slots=True)
class Company:
    """Jobs that may be beside a job even while it is measured; `uncounted` are their bytes."""

    beside: Set[str] = NOBODY
    uncounted: Set[str] = NOBODY


ALONE = Company()


def ancestors(job: Job, jobs: Mapping[str, Job]) -> Set[str]:
    """The live jobs that submitted this one, directly or through others."""
    if not job.spec.parent:
        return NOBODY
    found: set[str] = set()
    parent = jobs.get(job.spec.parent)
    while parent is not None and parent.live and parent.job_id not in found:
        found.add(parent.job_id)
        parent = jobs.get(parent.spec.parent)
    return found


def of_last_resort(
    company: Company, jobs: Mapping[str, Job], workers: Mapping[str, Worker]
) -> Company:
    """Leave out the bytes of ancestors too, and of all others if everybody only waits."""
    ignored = company.beside | _all_if_all_wait(jobs, workers)
    return Company(ignored, ignored)


def _all_if_all_wait(jobs: Mapping[str, Job], workers: Mapping[str, Worker]) -> Set[str]:
    """Every leased job, if each of them waits for jobs it submitted: none would end."""
    leased = [jobs[job_id] for worker in workers.values() for job_id in worker.leads]
    if all(job.waiting_children for job in leased):
        return {job.job_id for job in leased}
    return NOBODY
