"""Trains: like calls that were placed together and run one after the other in one lease.

The lease belongs to the first of them that has not ended; the others ride with it.
"""

from dataclasses import dataclass, field
from typing import Final

from .cells import Key
from .jobs import Job
from .peers import Worker

# How many calls may follow one at first, and at most: a worker reads its messages in between.
FIRST_CREDITS: Final = 16
MOST_CREDITS: Final = 255
# After a train of which most came back, its like are placed one by one for so long.
DOUBT_S: Final = 10.0
# Kinds of job that are remembered; it costs little to learn it anew.
MOST_KEYS: Final = 8192


@dataclass(slots=True, eq=False)
class Train:
    """The job that holds the lease, and those behind it in their order."""

    holder: Job
    lease_bytes: int
    riders: dict[str, Job] = field(default_factory=dict)


class Credits:
    """How many calls of a type may follow one another, by how it went the last time."""

    def __init__(self) -> None:
        self._credits: dict[Key, int] = {}
        self._doubted_until: dict[Key, float] = {}

    def of(self, key: Key, now: float) -> int:
        if now < self._doubted_until.get(key, now):
            return 0
        return self._credits.get(key, FIRST_CREDITS)

    def went_well(self, key: Key) -> None:
        """All of a train ran where it was sent: the next may be longer."""
        if len(self._credits) > MOST_KEYS:
            self._credits.clear()
            self._doubted_until.clear()
        self._credits[key] = min(MOST_CREDITS, 2 * self._credits.get(key, FIRST_CREDITS) + 1)

    def came_back(self, key: Key, now: float) -> None:
        """Something held up a train, or ended its process: fewer, and none for a while."""
        left = self._credits.get(key, FIRST_CREDITS) // 4
        self._credits[key] = max(1, left)
        if left < 1:
            self._doubted_until[key] = now + DOUBT_S


def step_off(job: Job, worker: Worker | None) -> bool:
    """Take a job out of its train; whoever was behind the holder of the lease holds it now.

    Returns:
        Whether the lease was passed on.
    """
    train, job.train = job.train, None
    if train is None:
        return False
    if train.holder is not job:
        train.riders.pop(job.job_id, None)
        return False
    if not train.riders:
        return False
    _, heir = next(iter(train.riders.items()))
    del train.riders[heir.job_id]
    train.holder = heir
    heir.places, job.places = job.places, ()
    if worker is not None and job.job_id in worker.ledger.leases:
        worker.ledger.pass_on(job.job_id, heir.job_id, heir.attempt)
    return True
