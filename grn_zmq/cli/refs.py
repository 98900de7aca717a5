"""Jobs by what people call them: the broker says which a reference means."""

import re
from collections.abc import Sequence
from typing import Final

import click

from ..batches import batches, share_of_message
from ..errors import GrnError
from ..facts import JobRow
from ..wire import AskJob, FindJobs, JobIs, JobsFound
from .asking import ask
from .listing import all_jobs
from .refcheck import check_ref
from .states import number_ranges

# Above this, one list of all jobs is cheaper than a question for each.
MOST_ASKED: Final = 50
REFS_PER_MESSAGE: Final = 500
# The part of an answer, at most, that the ids take that one reference means.
SHARE_OF_MANY: Final = 0.2
# Characters of the numbers of jobs of which one is to be named.
MOST_SHOWN: Final = 100

_ONE_JOB: Final = re.compile(r"[0-9]+|@(~[0-9]+)?", re.ASCII)

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
    try:
        weighed = [(check_ref(one), _share(one)) for one in dict.fromkeys(refs)]
    except ValueError as error:
        raise NoSuchJob(str(error)) from None
    for part in batches(weighed, REFS_PER_MESSAGE):
        for one in ask(FindJobs(tuple(part)), JobsFound).found:
            errors += [one.error] if one.error else []
            found |= dict.fromkeys(one.job_ids)
    if errors:
        raise NoSuchJob("; ".join(errors))
    return list(found)


def _share(ref: str) -> float:
    """The part of one message that it, or what it means, takes at most."""
    return share_of_message(ref) + (0.0 if _ONE_JOB.fullmatch(ref) else SHARE_OF_MANY)


def find_one(ref: str) -> str:
    """Give the id of the one job that is meant."""
    found = find([ref])
    if len(found) != 1:
        numbers = _shown(number_ranges(row.number for row in rows_of(found)))
        raise NoSuchJob(f"{ref} means {len(found):,} jobs ({numbers}): name one of them")
    return found[0]


def _shown(numbers: str) -> str:
    """As many of them as a line has room for."""
    if len(numbers) <= MOST_SHOWN:
        return numbers
    return f"{numbers[:MOST_SHOWN].rpartition(',')[0]}, …"


def rows_of(job_ids: Sequence[str]) -> list[JobRow]:
    """Give the rows of these jobs, in their order."""
    if len(job_ids) <= MOST_ASKED:
        return [ask(AskJob(job_id), JobIs).row for job_id in job_ids]
    rows = {row.job_id: row for row in all_jobs(ended=True)}
    return [rows[job_id] for job_id in job_ids if job_id in rows]


def find_rows(refs: Sequence[str]) -> list[JobRow]:
    """Give the rows of the jobs that are meant."""
    return rows_of(find(refs))
