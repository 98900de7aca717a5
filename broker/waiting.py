"""The queue: jobs of equal need wait in one class, and only class heads are looked at."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from .jobs import Job
from .profiles import Key
from .scheduler import Hold

ClassKey = tuple[Key, str, str, str]


def class_of(job: Job) -> ClassKey:
    """Jobs of one class get the same decision: equal need, policy, ancestors and pin."""
    spec = job.spec
    return job.key, spec.policy, spec.parent, spec.pin


@dataclass(slots=True)
class Waiting:
    """Queued jobs, first come first served within each class."""

    _classes: dict[ClassKey, dict[str, Job]] = field(default_factory=dict)
    _holds: dict[ClassKey, Hold] = field(default_factory=dict)

    def add(self, job: Job, *, first: bool = False) -> None:
        key = class_of(job)
        waiting = self._classes.get(key, {})
        if first:
            self._classes[key] = {job.job_id: job, **waiting}
        else:
            self._classes[key] = waiting
            waiting[job.job_id] = job

    def remove(self, job: Job) -> None:
        key = class_of(job)
        waiting = self._classes[key]
        del waiting[job.job_id]
        if not waiting:
            del self._classes[key]
            self._holds.pop(key, None)

    def heads(self) -> list[Job]:
        """The first job of each class, the longest waiting first."""
        return sorted(map(_first, self._classes.values()), key=_number)

    def next_like(self, job: Job) -> Job | None:
        """The job that now heads the class of `job`."""
        waiting = self._classes.get(class_of(job))
        return _first(waiting) if waiting else None

    def hold(self, job: Job, hold: Hold) -> None:
        """Remember why this head, and with it its class, has to wait."""
        self._holds[class_of(job)] = hold

    def why(self, job: Job) -> Hold | None:
        return self._holds.get(class_of(job))

    def __contains__(self, job: Job) -> bool:
        return job.job_id in self._classes.get(class_of(job), {})

    def __iter__(self) -> Iterator[Job]:
        for waiting in self._classes.values():
            yield from waiting.values()

    def __len__(self) -> int:
        return sum(map(len, self._classes.values()))


def _first(waiting: dict[str, Job]) -> Job:
    return next(iter(waiting.values()))


def _number(job: Job) -> int:
    return job.number
