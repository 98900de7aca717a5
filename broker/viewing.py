"""Devices as one job sees them: what is free, what it would be promised, who is there."""

from .book import Book
from .company import Company
from .estimates import Estimate
from .jobs import Job
from .ledger import Ledger
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
        estimate=book.profiles.estimate(job.key, facts, job.spec.memory_bytes),
    )
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
