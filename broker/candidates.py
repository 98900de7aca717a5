"""Which workers and devices come into question for a job, whatever room they have."""

from grn_zmq.records import DeviceFacts

from .book import GIVEN_UP_S, Book
from .jobs import Job
from .needs import is_among
from .peers import Worker
from .recovering import ALONE


def eligible(book: Book, job: Job) -> list[Worker]:
    """The workers on which a job may run now."""
    environment = job.spec.environment
    return [
        one
        for one in book.workers.values()
        if not one.suspect
        and (not environment or environment in one.offers)
        and (not job.spec.gpus or may_have(book, job, one.ledger.facts))
    ]


def managed(book: Book, job: Job, now: float) -> list[DeviceFacts]:
    """The devices that a job may have, also those whose worker is away for a moment."""
    here = {one.name for one in book.workers.values()}
    return [
        facts
        for name, facts in book.devices.items()
        if (name in here or now - book.left_at.get(name, now) < GIVEN_UP_S)
        and may_have(book, job, facts)
    ]


def able_devices(book: Book, job: Job) -> list[DeviceFacts]:
    """The devices that a job may ever have; one whose worker is away may be of use again."""
    environment = job.spec.environment
    unfit = {
        one.name
        for one in book.workers.values()
        if environment and environment not in one.offers
    }
    return [
        facts
        for name, facts in book.devices.items()
        if name not in unfit and may_have(book, job, facts)
    ]


def count_of(book: Book, job: Job, now: float) -> int:
    """How many devices a job wants, if it wants all of them too."""
    if job.spec.gpus >= 0:
        return job.spec.gpus
    of_queue = book.queues.of(job).devices
    return len(managed(book, job, now) if of_queue is None else of_queue)


def offered(book: Book) -> list[str]:
    """The environments that any worker offers."""
    return sorted({name for one in book.workers.values() for name in one.offers})


def may_have(book: Book, job: Job, facts: DeviceFacts) -> bool:
    """Whether a job may ever have this device."""
    spec = job.spec
    allowed = book.queues.of(job).devices
    # Several devices, queues and leases mean GPUs where there are any: one kind in a lease.
    if spec.gpus not in (0, 1) or spec.kind == "lease" or allowed is not None:
        gpus = any(one.kind == "nvml" for one in book.devices.values())
        if gpus and facts.kind != "nvml":
            return False
    return (
        spec.pin in ("", facts.uuid)
        and (not spec.among or is_among(facts, spec.among))
        and (allowed is None or str(facts.index) in allowed)
    )


def alone_on_bytes(book: Book, job: Job, now: float) -> int:
    """The size of the device for a job's last try, which it has to itself; else 0.

    The largest there is, even if it has just fallen silent.
    """
    if job.level < ALONE:
        return 0
    sizes = [
        worker.ledger.facts.total_bytes
        for worker in book.workers.values()
        if may_have(book, job, worker.ledger.facts)
        and (not worker.suspect or now - worker.last_report < GIVEN_UP_S)
    ]
    return max(sizes, default=0)
