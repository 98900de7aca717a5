"""Devices as one job sees them: what is free, what it would be promised, who is there."""

from .book import Book
from .company import Company
from .estimates import Estimate
from .jobs import Job
from .ledger import Ledger
from .needs import share_of, wants_whole
from .peers import Worker
from .scheduler import DeviceView


def view_of(
    worker: Worker, job: Job, company: Company, book: Book, sigmas: float
) -> DeviceView:
    """Show a device to a job, its ancestors left out."""
    ledger = worker.ledger
    facts = ledger.facts
    others = ledger.others(company.beside)
    view = DeviceView(
        worker=worker.incarnation,
        index=facts.index,
        total_bytes=facts.total_bytes,
        free_bytes=ledger.free_bytes(company.uncounted),
        idle=others == 0,
        jobs=others,
        has_place=ledger.max_jobs is None or others < ledger.max_jobs,
        closed=ledger.closed_to(company.beside),
        estimate=book.estimate(job, facts),
        uuid=facts.uuid,
        links=facts.links,
    )
    if wants_whole(job.spec):
        view.strangers = strangers_on(worker, job, book)
    if job.spec.share:
        _declare(view, job, ledger, company, sigmas)
        return view
    if view.estimate is None:
        return view
    view.lease_bytes = view.estimate.lease_bytes
    if view.idle:
        view.lease_bytes = _lease_alone(view, view.estimate, job)
    else:
        _add_neighbours(view, job, ledger, book)
        if view.free_bytes >= view.lease_bytes:
            view.headroom_bytes = ledger.headroom_bytes(
                sigmas, job.key, view.estimate, company.uncounted
            )
    return view


def strangers_on(worker: Worker, job: Job, book: Book) -> int:
    """Count the processes that hold a device though no job of ours is theirs.

    The only device of a machine may drive its display, and somebody is there always. What a
    caller has kept since its last lease is its own.
    """
    ledger = worker.ledger
    if ledger.facts.display and len(book.devices) == 1:
        return 0
    session = book.sessions.get(job.session)
    caller = session.pid if session else 0
    guests = {one.pid for one in ledger.leases.values() if one.guest}
    return sum(
        not one.job_id and one.pid != caller and one.pid not in guests
        for one in ledger.processes
    )


def _declare(
    view: DeviceView, job: Job, ledger: Ledger, company: Company, sigmas: float
) -> None:
    """The declared part of what strangers leave; what was learned can only raise it."""
    share = share_of(job.spec)
    assert share is not None
    declared = max(1, int(share * (view.total_bytes - ledger.foreign_bytes)))
    learned = view.estimate.lease_bytes if view.estimate else 0
    view.lease_bytes = max(declared, learned)
    view.has_place = True  # it is a place by itself
    if not (view.idle or ledger.all_declared):
        view.headroom_bytes = ledger.headroom_bytes(sigmas, without=company.uncounted)


def _lease_alone(view: DeviceView, found: Estimate, job: Job) -> int:
    """Where nobody else is, a job is content with less than the margin that company needs.

    What may need the whole device by a guess alone takes what strangers leave. So does an
    inline job that has been here before: what seems foreign may be what its process kept.
    """
    kept = job.spec.kind == "inline" and job.spec.pin != ""
    enough = found.bare_bytes <= view.free_bytes or found.beyond
    if (enough and view.free_bytes > 0) or (kept and view.free_bytes >= 0):
        return min(found.lease_bytes, view.free_bytes)
    return found.lease_bytes


def _add_neighbours(view: DeviceView, job: Job, ledger: Ledger, book: Book) -> None:
    device_class = ledger.facts.device_class
    view.shares = book.sharing.pays(device_class)
    if job.wary:
        view.doubted = any(
            book.profiles.doubts(lease.key, device_class) for lease in ledger.leases.values()
        )
