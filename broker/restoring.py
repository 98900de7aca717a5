"""From what the journal kept to the state of a broker that has just started."""

from dataclasses import fields, replace
from typing import Final

from grn_zmq import wire

from .book import Book
from .cancelling import Cancelling
from .changes import Kept, KeptJob, Life
from .effects import Effect, Note, Watch
from .jobs import Job, State
from .needs import as_amounts
from .peers import NOBODY, Session
from .settings import Settings
from .specs import shared

# What a job knows about itself as its life does.
_OF_LIFE: Final = tuple(
    {one.name for one in fields(Life)}
    & {one.name for one in fields(Job)} - {"state", "worker", "device", "granted"}
)


def restore(
    book: Book, cancelling: Cancelling, settings: Settings, kept: Kept, now: float
) -> list[Effect]:
    """Take everything back; whoever was connected is away until it greets.

    Jobs that were placed keep their place until their worker tells what became of them. Those
    whose client was gone already are cancelled before anything can start them.
    """
    book.numbers = kept.last_number
    for cell_id, cell in kept.cells:
        book.profiles.restore(cell_id, cell)
    for death in kept.deaths:
        book.poison.blame(death)
    for blob in kept.blobs:
        book.blobs.restore(blob)
    for one in kept.sessions:
        # A client looks for its broker for as long as workers have to come back.
        away_at = now + settings.return_after_start_s - settings.away_s
        book.sessions[one.name] = Session(
            one.name, NOBODY, one.pid, wire.PROTOCOL, stored=True, away_at=away_at
        )
    until = now + settings.return_after_start_s
    book.paused = kept.paused
    book.queues.restore(kept.queues)
    queued: list[tuple[Job, bool]] = []
    for job in kept.jobs:
        _restore_job(book, job, until, now, queued)
    for waiter, was_gated in queued:  # only now it is known how those ended that they wait for
        book.restore_queued(waiter, now, was_gated=was_gated)
    book.last_admitted = book.numbers
    book.queues.settle()
    for name in [job_id for job_id, job in book.jobs.items() if job.live and job.spec.parent]:
        _restore_family(book, book.jobs[name])
    book.ended = dict.fromkeys(
        sorted(book.ended, key=lambda one: book.jobs[one].ended_at or now)
    )
    orphans = [
        job
        for job in book.jobs.values()
        if job.live and not job.spec.detached and job.session not in book.sessions
    ]
    effects = cancelling.cancel(orphans, "terminate", now)
    book.blobs.drop_unneeded()
    live = len(book.jobs) - len(book.ended)
    facts = {"live": live, "placed": len(book.adrift), "ended": len(book.ended)}
    return [
        *(Watch(one.name, one.pid) for one in book.sessions.values() if one.pid),
        *([Note("took back jobs", facts)] if book.jobs else []),
        *effects,
    ]


def _restore_job(
    book: Book, kept: KeptJob, until: float, now: float, queued: list[tuple[Job, bool]]
) -> None:
    new = kept.new
    job = Job(
        new.spec,
        new.number,
        new.session,
        new.queued_at,
        new.digest,
        stored=True,
        payload_bytes=kept.payload_bytes,
    )
    job.spec = shared(job.spec)
    book.jobs[job.job_id] = job
    book.numbers = max(book.numbers, job.number)
    session = book.sessions.get(job.session)
    if session is not None and not job.spec.detached:
        job.watchers = (session.name,)
    if kept.life is not None:
        _restore_life(book, job, kept.life, until, queued)
        book.bound[job.session] += 1
    else:
        _restore_end(book, job, kept)
        if job.spec.detached or job.expired:
            return
        if session is not None:
            session.unsent[job.job_id] = None
        else:
            book.fading.add(job, now)


def _restore_life(
    book: Book, job: Job, life: Life, until: float, queued: list[tuple[Job, bool]]
) -> None:
    for name in _OF_LIFE:
        setattr(job, name, getattr(life, name))
    book.payload_bytes += job.payload_bytes
    book.queues.enter(job)
    for digest in set(job.digests):
        book.blobs.hold(digest)
    if life.state == State.QUEUED.value:
        queued.append((job, life.was_gated))
        return
    job.state = State.ASSIGNED
    job.worker, job.device = life.incarnation, life.device
    if not job.places and job.spec.gpus:  # written before there were several
        job.places = (life.worker,)
    job.granted = as_amounts(life.granted)
    book.queues.adopt(job)
    book.adrift.add(life, until)


def _restore_end(book: Book, job: Job, kept: KeptJob) -> None:
    assert kept.end is not None
    job.attempt = kept.end.attempt
    job.outcome = kept.end.outcome
    job.state = State(job.outcome.outcome)
    job.ended_at = kept.end.ended_at
    job.peak_bytes = job.outcome.peak_bytes
    job.predicted_bytes = job.outcome.predicted_bytes
    job.device = job.outcome.device
    if job.device or job.outcome.run_s:  # what lists show of it
        job.started_at = job.ended_at - job.outcome.run_s
    job.expired = kept.expired
    job.result_bytes = kept.result_bytes
    if job.expired:
        job.outcome = replace(job.outcome, token="", token_bytes=0)
    book.result_bytes += job.value_bytes
    book.ended[job.job_id] = None
    if job.spec.detached and kept.payload_bytes and _has_blobs(book, job):
        book.retriable[job.job_id] = None
        for digest in set(job.digests):
            book.blobs.hold(digest)
    if job.value_bytes:
        book.valued[job.job_id] = None
    if job.expired and not job.spec.detached:
        book.spent[job.job_id] = None


def _has_blobs(book: Book, job: Job) -> bool:
    return all(digest in book.blobs for digest in job.digests)


def _restore_family(book: Book, job: Job) -> None:
    parent = book.jobs.get(job.spec.parent)
    if parent is not None and parent.live:
        book.count_in(job)
