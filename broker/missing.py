"""What a job waits for that is no memory: named resources, environments, devices. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from grn_zmq.amounts import format_amount
from grn_zmq.records import JobSpec

from .book import Book
from .candidates import count_of, managed, offered
from .jobs import Job
from .needs import Needs
from .peers import Worker
from .queues import Queue
from .reservations import Reservations
from .scheduler import Hold, Place, Refuse, Why
from .settings import Settings
from .waiting import WaitingClass

# Holders named in a reason; more would drown it.
SHOWN: Final = 4


class Missing:
    """Says what keeps a job from starting before anybody looks for memory."""

    def __init__(self, book: Book, settings: Settings, reservations: Reservations) -> None:
        self._book = book
        self._settings = settings
        self._reservations = reservations

    def may_fit(self, waiting: WaitingClass, now: float) -> bool:
        """Say quickly whether the head of a class has a chance; most have none."""
        job = waiting.head
        if job.spec.parent:  # its ancestors may have what it needs
            return True
        needs = waiting.needs
        queue = self._book.queues.of(job)
        if not queue.fits(needs):
            return bool(queue.pools.impossible(needs))  # to be refused
        return self._reservations.kept is None or not self._reservations.keeps_from(
            job, needs, now
        )

    def queue_fits(self, job: Job, beside: Set[str], now: float) -> bool:
        """Whether its queue has what it needs, and for nobody else."""
        queue = self._book.queues.of(job)
        needs = queue.needs(job.spec)
        return queue.fits(needs, beside) and not self._reservations.keeps_from(job, needs, now)

    def of(self, job: Job, beside: Set[str], now: float) -> Hold | Refuse | None:
        """What a job needs beside memory and is not there; None if all of it is."""
        queue = self._book.queues.of(job)
        needs = queue.needs(job.spec)
        if not queue.fits(needs, beside):
            if needs and (why := queue.pools.impossible(needs)):
                return Refuse(0, 0, f"it can never run any more: {why}")
            return lacking(queue, needs, beside, self._book.jobs)
        kept = self._reservations.kept
        if kept is not None and self._reservations.keeps_from(job, needs, now):
            return kept_for(self._book.jobs[kept.job_id], needs)
        environment, workers = job.spec.environment, self._book.workers.values()
        if environment and not any(environment in one.offers for one in workers):
            return unoffered(environment, offered(self._book))
        if job.spec.gpus in (0, 1) and not job.spec.among:
            return None
        return self._too_few(job, now)

    def _too_few(self, job: Job, now: float) -> Hold | Refuse | None:
        wanted = count_of(self._book, job, now)
        devices = managed(self._book, job, now)
        found = [(self._book.estimate(job, facts), facts.total_bytes) for facts in devices]
        there = len(devices) - sum(one is not None and one.sure_bytes > n for one, n in found)
        if there >= max(1, wanted):
            return None
        if there < len(devices) and wanted > 1:
            return Refuse(0, 0, f"it wants {wanted} devices, {there} are large enough for it")
        gathering = now - self._book.gathered_at < self._settings.gather_s
        return too_few(job.spec, wanted, there, gathering=gathering or not self._book.workers)


def jobs_at_once(queue: Queue) -> str:
    return f"{queue.max_jobs} job{'' if queue.max_jobs == 1 else 's'}"


def lacking(queue: Queue, needs: Needs, beside: Set[str], jobs: Mapping[str, Job]) -> Hold:
    """Say what its queue has too little of, and who has it."""
    where = f"queue {queue.name}" if queue.name else "the broker"
    if queue.full(beside):
        text = f"waiting for its turn: {where} runs {jobs_at_once(queue)} at once (--max-jobs)"
        return Hold(Why.RESOURCE, text)
    parts: list[str] = []
    holders: dict[str, None] = {}
    for name, needed, left, capacity in queue.pools.lacking(needs, beside):
        parts.append(
            f"{name}: needs {format_amount(needed)}, {format_amount(max(left, 0 * left))} left "
            f"of {format_amount(capacity)}"
        )
        holders |= dict.fromkeys(queue.pools.holders(name))
    numbers = [str(jobs[one].number) for one in holders if one in jobs]
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    who = ", ".join(numbers[:SHOWN]) + more
    noun, verb = ("job", "has") if len(numbers) == 1 else ("jobs", "have")
    by = f" ({noun} {who} {verb} the rest)" if numbers else ""
    return Hold(
        Why.RESOURCE, f"waiting for what {where} has too little of: {'; '.join(parts)}{by}"
    )


def kept_for(job: Job, needs: Needs) -> Hold:
    names = ", ".join(needs)
    return Hold(
        Why.RESERVED,
        f"waiting for {names}: kept for job {job.number} ({job.spec.job_type}), which has "
        f"waited longer",
    )


def unoffered(environment: str, offers: Sequence[str]) -> Hold:
    known = ", ".join(offers) or "none"
    return Hold(
        Why.ENVIRONMENT,
        f"waiting for an environment: no worker offers {environment}; offered: {known}",
    )


def too_few(spec: JobSpec, count: int, there: int, *, gathering: bool) -> Hold | Refuse:
    """More devices are wanted than are managed: refused, unless others may yet join."""
    text = too_few_text(spec, count, there)
    return (
        Hold(Why.DEVICES, f"waiting for devices: {text}") if gathering else Refuse(0, 0, text)
    )


def too_few_text(spec: JobSpec, count: int, there: int) -> str:
    among = f" of those named {', '.join(spec.among)}" if spec.among else ""
    where = f" by queue {spec.queue}" if spec.queue else ""
    wanted = "a device" if count <= 1 else f"{count} devices"
    return f"it wants {wanted}{among}, {there} {'is' if there == 1 else 'are'} managed{where}"


def least_busy(workers: Iterable[Worker], jobs: Mapping[str, Job]) -> Place | Hold:
    """Where a job that needs no device runs: under the worker with fewest such jobs."""
    found = min(
        workers,
        key=lambda one: (
            sum(not jobs[job_id].places for job_id in one.leads),
            len(one.leads),
            one.ledger.facts.index,
        ),
        default=None,
    )
    if found is None:
        return Hold(Why.NO_DEVICE, "waiting for a worker: none that may run it is connected")
    return Place(found.incarnation, 0, measuring=False, device=False)
