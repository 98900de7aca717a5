"""The whole of it at a glance, and all about one job: what is asked once a second, or once."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from grn_zmq.facts import JobDetail, JobRow, Scene, Tried

from .book import Book
from .jobs import Job, State
from .listing import Listing
from .views import device_row

# Rows in one answer: more than any terminal has lines.
MOST_ROWS: Final = 200


class Scenery:
    """Makes pictures of the state; changes nothing."""

    def __init__(self, book: Book, listing: Listing) -> None:
        self._book = book
        self._listing = listing

    def scene(self, first: int, most: int, now: float) -> Scene:
        book = self._book
        running = sum(len(worker.leads) for worker in book.workers.values())
        running += len(book.adrift)
        first = min(first, len(book.jobs))
        jobs = islice(self._live(), first, first + min(most, MOST_ROWS))
        workers = sorted(book.workers.values(), key=lambda one: one.label)
        return Scene(
            paused=book.paused,
            stopping=book.stopping,
            queued=len(book.waiting) + len(book.gates),
            running=running,
            ended=book.ends,
            first=first,
            rows=tuple(self._listing.row(job, now) for job in jobs),
            devices=tuple(map(device_row, workers)),
        )

    def _live(self) -> Iterator[Job]:
        """Those that run, then those that wait as they are to be served, then the others."""
        book = self._book
        leased = [one for worker in book.workers.values() for one in worker.leads]
        running = [book.jobs[one] for one in (*leased, *book.adrift)]
        yield from sorted(running, key=lambda job: job.number)
        for _, waiting in book.waiting.ordered():
            yield from waiting
        yield from book.gates

    def detail(self, job: Job, now: float) -> JobDetail:
        """All that is known of a job and is not in its row."""
        spec, outcome = job.spec, job.outcome
        return JobDetail(
            by=dict(spec.by),
            policy=spec.policy,
            memory_bytes=spec.memory_bytes,
            exclusive=spec.exclusive,
            parent=spec.parent,
            timeout_s=spec.timeout_s,
            time_limit_s=spec.time_limit_s,
            grace_s=spec.grace_s,
            retries=spec.retries,
            retried=job.retried,
            retry_on=spec.retry_on,
            oom_retries=spec.oom_retries,
            ooms=job.ooms,
            enforce=spec.enforce,
            version=spec.version,
            on_end=spec.on_end,
            variables=dict(spec.variables),
            held=job.held,
            after=job.after if job.state is State.QUEUED else (),
            begin_in_s=max(0.0, job.begin_at - now) if job.early else None,
            error_type=outcome.error_type if outcome else "",
            error_text=outcome.error_text if outcome else "",
            last_lines=outcome.last_lines if outcome else "",
            fit=outcome.fit if outcome else 0,
            can_retry=job.job_id in self._book.retriable,
            tried=tuple(Tried(*one) for one in job.tried),
        )

    def row(self, job: Job, now: float) -> JobRow:
        return self._listing.row(job, now)
