"""What clients ask to see: jobs, devices and profiles, page by page."""

from collections.abc import Callable
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import batches, share_of_message
from grn_zmq.facts import JobRow

from .book import Book
from .effects import Effect, Send
from .jobs import LEASED, Job, State
from .peers import Session
from .scheduler import Hold
from .views import device_row, job_row, profile_row
from .waiting import ClassKey, class_of

ROWS_PER_MESSAGE: Final = 200


class Listing:
    """Answers questions; changes nothing."""

    def __init__(self, book: Book, why: Callable[[Job, float], Hold | None]) -> None:
        self._book = book
        self._why = why

    def jobs(self, session: Session, message: wire.AskJobs, now: float) -> list[Effect]:
        jobs = [
            job
            for job in self._book.jobs.values()
            if job.number > message.after and (message.ended or job.live)
        ]
        holds: dict[ClassKey | None, Hold | None] = {}
        rows = [self._row(job, holds, now) for job in jobs[:ROWS_PER_MESSAGE]]
        sized = [(row, share_of_message(row.name, row.job_type, row.why)) for row in rows]
        page = next(batches(sized, most=ROWS_PER_MESSAGE), [])
        answer = wire.JobsAre(tuple(page), more=len(jobs) > len(page))
        return [Send(session.peer, answer, protocol=session.protocol)]

    def row(self, job: Job, now: float) -> JobRow:
        return self._row(job, {}, now)

    def _row(self, job: Job, holds: dict[ClassKey | None, Hold | None], now: float) -> JobRow:
        """Equal jobs wait for the same: `holds` remembers it between them."""
        lease = hold = None
        if job.state is State.QUEUED and not job.missing:
            alike = None if job.gated else class_of(job)
            hold = holds[alike] if alike in holds else self._why(job, now)
            if alike is not None:
                holds[alike] = hold
        adrift = job.job_id in self._book.adrift
        if job.state in LEASED and not adrift:
            lease = self._book.workers[job.worker].ledger.leases.get(job.job_id)
        owner = self._book.sessions.get(job.session)
        return job_row(job, lease, hold, owner.pid if owner else 0, now, adrift=adrift)

    def devices(self, session: Session) -> list[Effect]:
        rows = tuple(device_row(worker) for worker in self._book.workers.values())
        return [Send(session.peer, wire.DevicesAre(rows), protocol=session.protocol)]

    def profiles(self, session: Session, message: wire.AskProfiles) -> list[Effect]:
        # In an order that does not depend on what was seen last: pages must fit together.
        cells = sorted(self._book.profiles, key=lambda one: repr(one[0]))[message.after :]
        rows = [
            profile_row(cell_id, cell, self._book.profiles.predict(cell_id))
            for cell_id, cell in cells[:ROWS_PER_MESSAGE]
        ]
        sized = [
            (row, share_of_message(row.job_type, *map(str, row.by.values()))) for row in rows
        ]
        page = next(batches(sized, most=ROWS_PER_MESSAGE), [])
        return [Send(session.peer, wire.ProfilesAre(tuple(page), more=len(cells) > len(page)))]
