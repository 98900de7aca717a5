"""Queues: named resources that jobs declare to need, each queue with capacities of its own."""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from grn_zmq.amounts import format_amount, parse_amount
from grn_zmq.facts import QueueRow
from grn_zmq.records import JobSpec

from .changes import Changes
from .jobs import Job, State
from .ledger import NOBODY
from .needs import GPU, Needs, as_texts, needs_of
from .pools import Pools

# The queue of all jobs that name none: what the broker itself has.
OWN: Final = ""


@dataclass(slots=True)
class Queue:
    """One queue. One that is `closing` was deleted and goes with its last job.

    Of one that has a name it is known who is `inside`: its jobs that have not ended.
    """

    name: str
    capacity: Mapping[str, Mapping[str, str]]
    prefix: tuple[str, ...] = ()
    max_jobs: int | None = None
    request: str = ""
    closing: bool = False
    pools: Pools = field(init=False)
    running: set[str] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pools = Pools(
            {
                name: {one: parse_amount(amount) for one, amount in instances.items()}
                for name, instances in self.capacity.items()
            }
        )

    @property
    def devices(self) -> tuple[str, ...] | None:
        """The indices of the devices it has; None if it has whatever there is."""
        return None if self.name == OWN else tuple(self.capacity.get(GPU, ()))

    def needs(self, spec: JobSpec) -> Needs:
        """What a job needs of this queue; all devices are as many as it has."""
        needs = needs_of(spec)
        if self.name and spec.gpus == -1:
            return {**needs, GPU: Fraction(len(self.capacity.get(GPU, ())))}
        return needs

    def able_devices(self, spec: JobSpec, without: Set[str]) -> Set[str]:
        """The indices of its devices of which so much is left as a job wants of each."""
        whole = Fraction(1)
        amount = parse_amount(spec.share) if spec.share else whole
        return frozenset(self.pools.able(GPU, amount, without))

    def full(self, without: Set[str] = NOBODY) -> bool:
        """Whether as many of its jobs run as may."""
        return self.max_jobs is not None and len(self.running - without) >= self.max_jobs

    def fits(self, needs: Needs, without: Set[str] = NOBODY) -> bool:
        if self.max_jobs is not None and self.full(without):
            return False
        return not needs or self.pools.fits(needs, without)


class Queues:
    """All queues there are, and what their jobs have of them."""

    def __init__(self, changes: Changes, capacity: Mapping[str, Mapping[str, str]]) -> None:
        self._changes = changes
        self._queues = {OWN: Queue(OWN, capacity)}
        # Whether something was given back since the last scheduling pass looked.
        self.opened = False

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues.values()))

    def get(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def of(self, job: Job) -> Queue:
        """Its queue; of an ended job that may be gone, and then has nothing."""
        found = self._queues.get(job.spec.queue)
        return Queue(job.spec.queue, {}, closing=True) if found is None else found

    def create(self, queue: Queue) -> None:
        """Add a queue; whoever follows this broker has it too."""
        self._queues[queue.name] = queue
        self._keep()

    def close(self, queue: Queue) -> None:
        """Take no more jobs; it goes with the last that runs."""
        queue.closing = True
        self._drop_if_over(queue)
        self._keep()

    def enter(self, job: Job) -> None:
        """A job is in its queue from now on, until it ends."""
        if not job.spec.queue:
            return
        if job.spec.queue not in self._queues:  # it was deleted, and this is of before
            self._queues[job.spec.queue] = Queue(job.spec.queue, {}, closing=True)
        self.of(job).inside.add(job.job_id)

    def quit(self, job: Job) -> None:
        """A job has ended."""
        queue = self._queues.get(job.spec.queue)
        if queue is not None and job.spec.queue:
            queue.inside.discard(job.job_id)
            if queue.closing:
                self._drop_if_over(queue)
                self._keep()

    def grant(self, job: Job, devices: Iterable[int], uncounted: Set[str] = NOBODY) -> None:
        """Give a job that is about to start what it needs, on these devices."""
        queue = self.of(job)
        needs = queue.needs(job.spec)
        queue.running.add(job.job_id)
        if needs:
            chosen = {GPU: [str(one) for one in devices]} if GPU in needs else {}
            job.granted = queue.pools.grant(job.job_id, needs, chosen, uncounted)

    def adopt(self, job: Job) -> None:
        """Take over what was granted before: it holds, whatever is left now."""
        queue = self.of(job)
        queue.running.add(job.job_id)
        if job.granted:
            queue.pools.adopt(job.job_id, job.granted)

    def release(self, job: Job) -> None:
        """Take everything back: the attempt is over."""
        queue = self._queues.get(job.spec.queue)
        job.granted = {}
        if queue is None or job.job_id not in queue.running:
            return
        queue.running.discard(job.job_id)
        queue.pools.release(job.job_id)
        self.opened = True

    def _drop_if_over(self, queue: Queue) -> None:
        if queue.closing and not queue.inside:
            del self._queues[queue.name]

    def _keep(self) -> None:
        kept = [
            {
                "name": one.name,
                "capacity": one.capacity,
                "prefix": one.prefix,
                "max_jobs": one.max_jobs,
                "request": one.request,
                "closing": one.closing,
            }
            for one in self._queues.values()
            if one.name != OWN
        ]
        self._changes.batch.queues = json.dumps(kept)
        self._changes.batch.durable = True

    def restore(self, kept: str) -> None:
        """Take back the queues that an earlier broker had."""
        found: list[dict[str, Any]] = json.loads(kept) if kept else []
        for one in found:
            queue = Queue(**{**one, "prefix": tuple(one["prefix"])})
            self._queues[queue.name] = queue

    def settle(self) -> None:
        """After a start: those that were deleted and have no job any more go."""
        before = len(self._queues)
        for queue in list(self._queues.values()):
            self._drop_if_over(queue)
        if len(self._queues) < before:
            self._keep()

    def check(self) -> None:
        for queue in self._queues.values():
            queue.pools.check()


def row_of(queue: Queue, jobs: Iterable[Job]) -> QueueRow:
    """What lists show of a queue."""
    states = [job.state for job in jobs if job.spec.queue == queue.name]
    queued = states.count(State.QUEUED)
    running = states.count(State.ASSIGNED) + states.count(State.RUNNING)
    return QueueRow(
        name=queue.name,
        capacity={
            name: {one: format_amount(parse_amount(text)) for one, text in instances.items()}
            for name, instances in queue.capacity.items()
        },
        left=as_texts(queue.pools.left()),
        prefix=queue.prefix,
        max_jobs=queue.max_jobs,
        closing=queue.closing,
        queued=queued,
        running=running,
        ended=len(states) - queued - running,
    )
