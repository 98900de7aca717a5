"""One attempt of a job as its worker needs to know it."""

from collections.abc import Sequence
from typing import Final

from grn_zmq.records import Run
from grn_zmq.tails import NO_TAIL, Tail

from .book import Book
from .jobs import Job
from .ledger import Lease
from .needs import as_texts, class_on
from .peers import Worker, leased_device

# Kinds of job whose body runs in its caller's own process.
INLINE: Final = frozenset({"inline", "lease"})


def run_of(
    book: Book,
    job: Job,
    worker: Worker,
    leases: Sequence[tuple[Worker, Lease]],
    tail: Tail = NO_TAIL,
) -> Run:
    """Give the present attempt of a job, with what it was promised and granted."""
    spec = job.spec
    on = class_on(worker.ledger.facts.device_class, spec.gpus)
    session = book.sessions.get(job.session)
    # After a start, the worker of another of its devices may not be back yet.
    devices = [book.devices[name] for name in job.places if name in book.devices]
    return Run(
        job_id=job.job_id,
        attempt=job.attempt,
        job_type=spec.job_type,
        session=job.session,
        kind=spec.kind,
        lease_bytes=leases[0][1].lease_bytes if leases else 0,
        stand_in=job.runs_stand_in,
        function=spec.function,
        context=spec.context,
        stdin=spec.stdin,
        reuse=spec.reuse,
        pid=session.pid if session else 0,
        enforce=spec.enforce,
        young=bool(leases) and book.profiles.young(job.key, on),
        payload=job.payload or spec.payload,
        detached=spec.detached,
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        token=spec.token,
        number=job.number,
        name=spec.name,
        variables=spec.variables,
        devices=tuple(map(leased_device, devices)),
        granted=as_texts(job.granted),
        environment=spec.environment,
        prefix=book.queues.of(job).prefix,
        tail=tail,
    )
