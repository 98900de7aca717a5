"""Jobs by what people call them: the broker says which a reference means."""

from collections.abc import Sequence
from typing import Final

import click

from ..batches import parts
from ..errors import GrnError
from ..facts import JobRow
from ..wire import AskJob, FindJobs, JobIs, JobsFound
from .asking import ask
from .listing import all_jobs

# Above this, one list of all jobs is cheaper than a question for each.
MOST_ASKED: Final = 50
REFS_PER_MESSAGE: Final = 500

refs_argument = click.argument("refs", nargs=-1, required=True, metavar="JOB...")
some_refs_argument = click.argument("refs", nargs=-1, metavar="[JOB]...")


class NoSuchJob(GrnError, LookupError):
    """A reference that means no job, or several where one is wanted."""


def find(refs: Sequence[str]) -> list[str]:
    """Give the ids of the jobs that are meant, each once, in the order they were written.

    Raises:
        NoSuchJob: One of them means none; the text says which, and why.
    """
    found: dict[str, None] = {}
    errors: list[str] = []
    for part in parts(refs, REFS_PER_MESSAGE):
        for one in ask(FindJobs(part), JobsFound).found:
            errors += [one.error] if one.error else []
            found |= dict.fromkeys(one.job_ids)
    if errors:
        raise NoSuchJob("; ".join(errors))
    return list(found)


def find_one(ref: str) -> str:
    """Give the id of the one job that is meant."""
    found = find([ref])
    if len(found) != 1:
        raise NoSuchJob(f"{ref} means {len(found)} jobs: name one of them")
    return found[0]


def rows_of(job_ids: Sequence[str]) -> list[JobRow]:
    """Give the rows of these jobs, in their order."""
    if len(job_ids) <= MOST_ASKED:
        return [ask(AskJob(job_id), JobIs).row for job_id in job_ids]
    rows = {row.job_id: row for row in all_jobs(ended=True)}
    return [rows[job_id] for job_id in job_ids if job_id in rows]


def find_rows(refs: Sequence[str]) -> list[JobRow]:
    """Give the rows of the jobs that are meant."""
    return rows_of(find(refs))
