"""What runs out with time: the patience of waiting jobs, and results that were fetched."""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from .jobs import Job, State

# A result that its caller has may be asked for once more, by who missed the first answer.
KEEP_FETCHED_S: Final = 60.0
# Fewer entries than these are not worth a look.
LEAST_TIDIED: Final = 1024


class Patience:
    """Queued jobs with a `timeout`, the next to be given up first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Job]] = []
        self._tidy_at = LEAST_TIDIED

    def add(self, job: Job) -> None:
        """Note when a queued job is to be given up; never, for most."""
        if job.spec.timeout_s is not None:
            until = _deadline(job)
            heappush(self._heap, (until, job.number, job.attempt, job))
            if len(self._heap) >= self._tidy_at:
                self._tidy()

    def _tidy(self) -> None:
        """Forget those that wait no more: some have days left, and are long gone."""
        self._heap = [one for one in self._heap if _waits(one[3], one[2])]
        heapify(self._heap)
        self._tidy_at = max(LEAST_TIDIED, 2 * len(self._heap))

    def over(self, now: float) -> list[Job]:
        """The jobs that have waited too long, and still wait.

        One that has begun once is not given up later: it was placed in time.
        """
        found: list[Job] = []
        while self._heap and self._heap[0][0] <= now:
            until, _, attempt, job = heappop(self._heap)
            # One that was held since then has been added again, with more time.
            current = until == _deadline(job) and not job.gated
            if _waits(job, attempt) and current and not (job.starts or job.missing):
                found.append(job)
        return found

    @property
    def next_due(self) -> float | None:
        return self._heap[0][0] if self._heap else None


def _deadline(job: Job) -> float:
    """Until when it may wait, from when it could start."""
    return max(job.queued_at, job.opened_at) + (job.spec.timeout_s or 0.0)


def _waits(job: Job, attempt: int) -> bool:
    return job.state is State.QUEUED and job.attempt == attempt


class Fading:
    """Results of attached jobs that need not be kept, in the order in which they go."""

    def __init__(self) -> None:
        self._queue: deque[tuple[float, str]] = deque()

    def add(self, job: Job, now: float) -> None:
        self._queue.append((now + KEEP_FETCHED_S, job.job_id))

    def over(self, now: float) -> list[str]:
        found: list[str] = []
        while self._queue and self._queue[0][0] <= now:
            found.append(self._queue.popleft()[1])
        return found
