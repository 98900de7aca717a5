"""From what workers report to what profiles know."""

import math
from typing import Final

from grn_zmq.records import Result

from .book import Book, facts_of
from .effects import Effect, Note
from .estimates import Estimate, Kind, from_settled
from .jobs import Job
from .ledger import ALONE_COMPANY, GROWTH, MOST_PER_DEVICE, Lease, Ledger
from .needs import class_on
from .peers import Worker
from .profiles import Observed
from .settings import Settings
from .settling import has_settled

_TEACH: Final = frozenset({"succeeded", "failed", "killed", "oom"})


class Learning:
    """Feeds samples, settled runs and ends to the profiles."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings

    def notice_growth(self, lease: Lease, ledger: Ledger) -> None:
        """A job beyond its promise tells at once that its like need more."""
        promised = lease.estimate is not None and not (lease.measuring or lease.alone)
        if promised and lease.used_bytes > lease.lease_bytes * GROWTH:
            device_class = ledger.facts.device_class
            self._book.profiles.note_growth(lease.key, device_class, lease.used_bytes)

    def notice_settled(self, worker: Worker, now: float) -> list[Effect]:
        """Open the rest of a device once its measuring run grows no more.

        Those that were started by its figure vouch for more of them once they settle too.
        """
        ledger = worker.ledger
        effects: list[Effect] = []
        for lease in ledger.leases.values():
            if lease.settled or not (lease.measuring or lease.kind is Kind.SETTLED):
                continue
            job = self._book.jobs[lease.job_id]
            if job.runs_stand_in or not has_settled(lease, self._settings.settle_s, now):
                continue
            ledger.settle(lease, from_settled(lease.most_used_bytes))
            self._book.profiles.note_settled(
                lease.key, ledger.facts.device_class, lease.most_used_bytes
            )
            self._book.stirred = True
            self._book.keeping.touch(job)
            effects.append(Note("settled", {**facts_of(job), "lease_bytes": lease.lease_bytes}))
        return effects

    def observe(
        self, job: Job, ledger: Ledger, result: Result, company: float, *, culprit: bool
    ) -> None:
        """Learn from a run that has ended beside `company - 1` others on average."""
        ended_by_us = job.cancelling and result.outcome != "succeeded"
        began = result.error_type != "JobNotStarted"
        if result.outcome not in _TEACH or ended_by_us or not began:
            return
        if job.spec.kind == "lease" or not job.spec.gpus:
            return
        profiles = self._book.profiles
        device_class = class_on(ledger.facts.device_class, job.spec.gpus)
        solo_s = profiles.solo_s(job.key, device_class)
        succeeded = result.outcome == "succeeded"
        if succeeded and not job.runs_stand_in:
            self._book.sharing.observe(job.key, device_class, company, solo_s, result.run_s)
        cell_id = profiles.observe(
            job.key,
            device_class,
            Observed(
                result.outcome,
                result.peak_bytes,
                need_bytes=result.need_bytes,
                asked_bytes=result.asked_bytes,
                run_s=result.run_s,
                utilisation=result.utilisation,
                mean_utilisation=result.mean_utilisation,
                seen=result.seen,
                alone=company < ALONE_COMPANY,
                culprit=culprit,
                stand_in=job.runs_stand_in,
            ),
        )
        self._book.changes.remember(cell_id, profiles.cell(cell_id))

    def how_many_fit(self, job: Job, ledger: Ledger) -> int:
        """How many such jobs an empty device of this kind takes by what is known now."""
        found = self._book.estimate(job, ledger.facts)
        if found is None or found.sure_bytes > ledger.facts.total_bytes:
            return 0
        most = ledger.max_jobs or MOST_PER_DEVICE
        count = min(most, ledger.facts.total_bytes // found.lease_bytes)
        while count > 1 and self._wanted(found, count) + ledger.guard_bytes > (
            ledger.facts.total_bytes
        ):
            count -= 1
        return max(1, count)

    def _wanted(self, found: Estimate, count: int) -> float:
        spread = math.hypot(math.sqrt(count) * found.noise_bytes, count * found.bias_bytes)
        return count * found.lease_bytes + self._settings.sigmas * spread
