"""Queued jobs that may not start yet: held, too early, or after jobs that have not ended."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count

from .jobs import Job, State


class Gates:
    """Keeps them out of the queue, and says whose time has come, or never will.

    Whoever ends a job tells it here; who may start or is to be given up is taken from here
    later, so that nobody ends a job while another ends.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._all = jobs
        self._jobs: dict[str, Job] = {}
        self._followers: dict[str, dict[str, None]] = {}
        self._begins: list[tuple[float, int, Job]] = []
        self._pushed = count()
        self._open: dict[str, Job] = {}
        self._doomed: dict[str, Job] = {}

    def bar(self, job: Job) -> None:
        """Say what a new job has to wait for; who is not here any more ended well before."""
        spec = job.spec
        job.early = bool(spec.begin_s)
        if not (spec.after or spec.after_any):
            return
        before = [
            one
            for one in map(self._all.get, dict.fromkeys((*spec.after, *spec.after_any)))
            if one is not None
        ]
        job.after = tuple(one.job_id for one in before if one.live or self._forbids(one, job))

    @staticmethod
    def _forbids(ended: Job, job: Job) -> bool:
        """Whether how one job ended keeps the other from ever starting."""
        return ended.state is not State.SUCCEEDED and ended.job_id in job.spec.after

    def add(self, job: Job) -> None:
        self._jobs[job.job_id] = job
        for job_id in job.after:
            self._followers.setdefault(job_id, {})[job.job_id] = None
            if not self._all[job_id].live:
                self._doomed[job.job_id] = self._all[job_id]
        if job.early:
            heappush(self._begins, (job.begin_at, next(self._pushed), job))

    def remove(self, job: Job) -> None:
        """It waits here no longer: it may start, or has ended."""
        del self._jobs[job.job_id]
        self._doomed.pop(job.job_id, None)
        self._open.pop(job.job_id, None)
        for job_id in job.after:
            followers = self._followers[job_id]
            del followers[job.job_id]
            if not followers:
                del self._followers[job_id]

    def note_end(self, ended: Job) -> None:
        """A job has ended: who waited for it may start, or never will."""
        for job_id in self._followers.get(ended.job_id, ()):
            job = self._jobs[job_id]
            if self._forbids(ended, job):
                self._doomed[job_id] = ended
                continue
            job.after = tuple(one for one in job.after if one != ended.job_id)
            self.look(job)
        left = self._followers.get(ended.job_id, {})
        left = {one: None for one in left if ended.job_id in self._jobs[one].after}
        if left:
            self._followers[ended.job_id] = left
        else:
            self._followers.pop(ended.job_id, None)

    def awaits(self, job_id: str) -> bool:
        """Whether somebody waits for the end of this job."""
        return job_id in self._followers

    def look(self, job: Job) -> None:
        """Something about a job here has changed: perhaps it may start now."""
        if not job.gated:
            self._open[job.job_id] = job

    def take_open(self, now: float) -> list[Job]:
        """Give those that nothing keeps any more; each is to be opened."""
        while self._begins and self._begins[0][0] <= now:
            job = heappop(self._begins)[2]
            job.early = False
            if job.job_id in self._jobs:
                self.look(job)
        return list(self._open.values())

    def take_doomed(self) -> list[tuple[Job, Job]]:
        """Give those that will never start, each with the job that ended as it should not."""
        return [(self._jobs[one], ended) for one, ended in self._doomed.items()]

    @property
    def stirred(self) -> bool:
        """Whether somebody here may start, or is to be given up."""
        return bool(self._open or self._doomed)

    @property
    def next_due(self) -> float | None:
        return self._begins[0][0] if self._begins else None

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def __contains__(self, job: Job) -> bool:
        return job.job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)
