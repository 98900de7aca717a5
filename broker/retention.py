"""How long what has ended is kept: values, arguments for another try, the jobs themselves."""

from dataclasses import replace
from typing import Final

from .book import Book
from .effects import Discard, DiscardLog, Effect
from .handing import give_up
from .jobs import Job

# Ended jobs that lists still find though nobody will ask for them: their callers have them.
KEEP_SPENT: Final = 10_000
# Ended jobs in all; those that nobody has fetched yet are kept for a week, so many at most.
KEEP_ENDED: Final = 200_000
KEEP_RESULT_S: Final = 7 * 24 * 3600.0
KEEP_RESULT_BYTES: Final = 1 << 30
# Detached jobs that can be run once more by `grn retry`, the last ones.
KEEP_RETRIABLE: Final = 2_000


class Retention:
    """Lets go of what is past its time."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def forget_old(self, now: float) -> list[Effect]:
        """Let go of results that were fetched, and of ended jobs nobody will ask for again.

        What an id once was is forgotten last: with it a repeated submission would be a new job.
        """
        book = self._book
        effects: list[Effect] = []
        for job_id in book.fading.over(now):
            job = book.jobs.get(job_id)
            if job is not None and not job.expired:
                effects += self.let_go_of_result(job)
        while book.result_bytes > KEEP_RESULT_BYTES:
            effects += self.let_go_of_result(book.jobs[next(iter(book.valued))])
        while len(book.retriable) > KEEP_RETRIABLE:
            self._let_go_of_inputs(book.jobs[next(iter(book.retriable))])
        while len(book.spent) > KEEP_SPENT:
            effects += self.forget(book.jobs[next(iter(book.spent))])
        while book.ended:
            job = book.jobs[next(iter(book.ended))]
            old = now - (job.ended_at or now) > KEEP_RESULT_S
            if not (old or len(book.ended) > KEEP_ENDED) or job.waiting_children:
                break
            effects += self.forget(job)
        return effects

    def let_go_of_result(self, job: Job) -> list[Effect]:
        """The value of an ended job is no longer kept; how it ended still is."""
        assert job.outcome is not None
        book = self._book
        token = job.outcome.token
        job.expired = True
        book.result_bytes -= job.value_bytes
        book.valued.pop(job.job_id, None)
        job.result_bytes = 0
        if job.outcome.payload or token:
            job.outcome = replace(job.outcome, payload=b"", token="", token_bytes=0)
        book.changes.batch.expired.append(job.job_id)
        if not job.spec.detached and not job.waiting_children:
            book.spent[job.job_id] = None
        return [Discard(token)] if token else []

    def _let_go_of_inputs(self, job: Job) -> None:
        """It can be run once more no longer."""
        del self._book.retriable[job.job_id]
        self._book.let_go_of_blobs(job)
        self._book.changes.batch.spent.append(job.job_id)

    def forget(self, job: Job) -> list[Effect]:
        """Let go of an ended job, with all that was kept of it."""
        book = self._book
        effects: list[Effect] = [DiscardLog(job.job_id)]
        if not job.expired:
            effects += self.let_go_of_result(job)
        if job.job_id in book.retriable:
            self._let_go_of_inputs(job)
        for session in book.sessions.values():
            effects += give_up(job, session)
        book.changes.batch.forgotten.append(job.job_id)
        book.spent.pop(job.job_id, None)
        del book.ended[job.job_id]
        del book.jobs[job.job_id]
        return effects
