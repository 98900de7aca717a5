"""The queue: jobs of equal need wait in one class, and only class heads are looked at."""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from grn_zmq.records import JobSpec

from .cells import Key
from .jobs import Job, State
from .needs import Needs
from .ordering import OrderKey

# What jobs declare to need: devices, share, which of them, queue, resources, environment.
# A lease is told apart by its holder too, who may have what keeps others out.
Declared = tuple[int, str, tuple[str, ...], str, tuple[tuple[str, str], ...], str, str]
ClassKey = tuple[Key, str, str, str, int, int, int, bool, bool, Declared | None]


def class_of(job: Job) -> ClassKey:
    """Jobs of one class get the same decision: equal need, policy, ancestors, pin, history."""
    spec = job.spec
    return (
        job.key,
        spec.policy,
        spec.parent,
        spec.pin,
        job.priority,
        spec.memory_bytes,
        job.level,
        job.wary,
        spec.exclusive,
        _declared(job) if is_declared(spec) else None,
    )


def is_declared(spec: JobSpec) -> bool:
    """Whether a job says of itself what it needs beside memory."""
    return bool(
        spec.gpus != 1
        or spec.share
        or spec.among
        or spec.queue
        or spec.resources
        or spec.environment
        or spec.kind == "lease"
    )


def _declared(job: Job) -> Declared:
    spec = job.spec
    resources = tuple(spec.resources.items())
    holder = job.session if spec.kind == "lease" else ""
    return spec.gpus, spec.share, spec.among, spec.queue, resources, spec.environment, holder


@dataclass(slots=True, eq=False)
class WaitingClass:
    """Equal jobs in the order they came, and what is known of them while they wait.

    `least_bytes` is what the head needs at least where it needs least, or 0 if that is yet
    to be measured; `passed_s` is how much work had been started when it became the head.
    """

    key: ClassKey
    order: OrderKey = (0, 0.0, 0)
    jobs: deque[Job] = field(default_factory=deque)
    # How often each stands in `jobs` though it was taken out: before where it stands rightly.
    stale: Counter[str] = field(default_factory=Counter)
    stale_count: int = 0
    least_bytes: int = 0
    variance: float = 0.0
    duration_s: float | None = None
    passed_s: float = 0.0
    unmeasured: bool = False
    # What its jobs need of their queue.
    needs: Needs = field(default_factory=dict)

    @property
    def head(self) -> Job:
        while self._is_stale(self.jobs[0]):
            self.jobs.popleft()
        return self.jobs[0]

    def _is_stale(self, job: Job) -> bool:
        """Whether the first entry of this job is one that was taken out; it is let go."""
        if job.job_id not in self.stale:
            return False
        self.stale[job.job_id] -= 1
        self.stale_count -= 1
        if not self.stale[job.job_id]:
            del self.stale[job.job_id]
        return True

    def waits(self, job: Job) -> bool:
        """Whether a job of this class is still in it."""
        if job.state is not State.QUEUED or job.missing or job.gated:
            return False
        passed_over = self.stale.get(job.job_id, 0)
        return not passed_over or sum(one is job for one in self.jobs) > passed_over

    def add(self, job: Job, *, first: bool) -> None:
        if not first:
            self.jobs.append(job)
            return
        if job.job_id in self.stale:
            # It would stand before what is to be passed over in its name.
            self.stale_count -= self.stale.pop(job.job_id)
            self.jobs = deque(one for one in self.jobs if one is not job)
        self.jobs.appendleft(job)

    def remove(self, job: Job) -> None:
        """Take a job out; from the middle it goes in fact when it comes to the head."""
        if self.head is job:
            self.jobs.popleft()
        else:
            self.stale[job.job_id] += 1
            self.stale_count += 1
        self._tidy()

    def take_next(self, most: int, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take out the first jobs, as long as they are wanted."""
        taken: list[Job] = []
        while len(taken) < most and len(self) and wanted(self.head):
            taken.append(self.jobs.popleft())
        self._tidy()
        return taken

    def _tidy(self) -> None:
        if len(self) == 0:
            self.jobs.clear()
            self.stale.clear()
            self.stale_count = 0

    def __iter__(self) -> Iterator[Job]:
        left = dict(self.stale)
        for job in self.jobs:
            if left.get(job.job_id):
                left[job.job_id] -= 1
            else:
                yield job

    def __len__(self) -> int:
        return len(self.jobs) - self.stale_count


Waiter = tuple[OrderKey, WaitingClass]


class Heads:
    """Classes in the order of their heads, while heads are taken and others follow them.

    In its turn: a long class must not overtake older jobs of another.
    """

    def __init__(self, waiters: Sequence[Waiter]) -> None:
        self._waiters = waiters
        self._at = 0
        self._again: list[Waiter] = []

    def again(self, waiting: WaitingClass) -> None:
        """Look at this class once more, where its new head belongs."""
        heappush(self._again, (waiting.order, waiting))

    def next(self) -> WaitingClass | None:
        """The class whose head is to be looked at next."""
        left = self._at < len(self._waiters)
        if self._again and not (left and self._waiters[self._at] < self._again[0]):
            return heappop(self._again)[1]
        if not left:
            return None
        self._at += 1
        return self._waiters[self._at - 1][1]


class Waiting:
    """Queued jobs; classes are kept in the order in which their heads are to be served."""

    def __init__(self, order: Callable[[Job], OrderKey]) -> None:
        self._order_of = order
        self._classes: dict[ClassKey, WaitingClass] = {}
        self._by_type: dict[str, dict[ClassKey, WaitingClass]] = {}
        self._ordered: list[tuple[OrderKey, WaitingClass]] = []
        # Classes with a new head since the scheduling pass last looked.
        self.fresh: list[WaitingClass] = []

    def add(self, job: Job, *, first: bool = False) -> None:
        key = class_of(job)
        waiting = self._classes.get(key)
        if waiting is None:
            waiting = self._classes[key] = WaitingClass(key)
            self._by_type.setdefault(job.spec.job_type, {})[key] = waiting
        elif first:
            self._unlist(waiting)
        waiting.add(job, first=first)
        if first or len(waiting) == 1:
            self._list(waiting)

    def extend(self, jobs: Sequence[Job]) -> None:
        """Add jobs of one class that came together."""
        self.add(jobs[0])
        self._classes[class_of(jobs[0])].jobs.extend(jobs[1:])

    def take_next(
        self, waiting: WaitingClass, most: int, wanted: Callable[[Job], bool]
    ) -> list[Job]:
        """Take out the first jobs of a class, as long as they are wanted."""
        job_type = waiting.head.spec.job_type
        self._unlist(waiting)
        taken = waiting.take_next(most, wanted)
        self._settle(waiting, job_type)
        return taken

    def remove(self, job: Job) -> None:
        waiting = self._classes[class_of(job)]
        headed = waiting.head is job
        if headed:
            self._unlist(waiting)
        waiting.remove(job)
        if headed or not waiting.jobs:
            self._settle(waiting, job.spec.job_type)

    def _settle(self, waiting: WaitingClass, job_type: str) -> None:
        """List a class under its new head, or forget it."""
        if waiting.jobs:
            self._list(waiting)
            return
        del self._classes[waiting.key]
        of_type = self._by_type[job_type]
        del of_type[waiting.key]
        if not of_type:
            del self._by_type[job_type]

    def _list(self, waiting: WaitingClass) -> None:
        waiting.order = self._order_of(waiting.head)
        insort(self._ordered, (waiting.order, waiting))
        self.fresh.append(waiting)

    def _unlist(self, waiting: WaitingClass) -> None:
        at = bisect_left(self._ordered, (waiting.order,))
        assert self._ordered[at][1] is waiting, "the order of the queue is broken"
        del self._ordered[at]

    def ordered(self) -> list[tuple[OrderKey, WaitingClass]]:
        """The classes, that of the job to be served first in front. Not to be changed."""
        return self._ordered

    def of_types(self, job_types: Iterable[str]) -> Iterator[WaitingClass]:
        for job_type in job_types:
            yield from self._by_type.get(job_type, {}).values()

    def class_of(self, job: Job) -> WaitingClass | None:
        """The class that a job still waits in."""
        waiting = self._classes.get(class_of(job))
        return waiting if waiting is not None and waiting.waits(job) else None

    def like(self, job: Job) -> WaitingClass | None:
        """The class of which this job was, if others are in it."""
        return self._classes.get(class_of(job))

    def __contains__(self, job: Job) -> bool:
        return self.class_of(job) is not None

    def __iter__(self) -> Iterator[Job]:
        for waiting in self._classes.values():
            yield from waiting

    def __len__(self) -> int:
        return sum(map(len, self._classes.values()))
