"""How attempts end: with a result, with their worker, or without ever having begun."""

from dataclasses import replace
from typing import Final

from grn_zmq.records import Result

from .book import Book
from .changes import Death
from .effects import Discard, Effect, Note
from .ends import outcome_of, outcome_without_result
from .jobs import Job, State, Step
from .learning import Learning
from .peers import Worker
from .recovering import is_culprit, next_try, proved, report
from .retrying import may_retry

_STEPS: Final = {
    "succeeded": Step.RETURN,
    "failed": Step.RAISE,
    "killed": Step.DIE,
    "oom": Step.RUN_OUT,
    "cancelled": Step.CANCEL,
    "lost": Step.LOSE_WORKER,
    "timed-out": Step.TIME_OUT,
}


QUARANTINED: Final = "its type is quarantined: its runs killed their workers"


class Finishing:
    """Decides what becomes of a job when one of its attempts is over."""

    def __init__(self, book: Book, learning: Learning) -> None:
        self._book = book
        self._learning = learning

    def finish(self, job: Job, worker: Worker, result: Result, now: float) -> list[Effect]:
        """A worker tells how an attempt ended."""
        ledger = worker.ledger
        lease = ledger.leases.get(job.job_id)
        ran_out = result.outcome == "oom"
        culprit = proof = False
        company = 1.0
        if lease is not None:
            culprit = ran_out and is_culprit(lease, ledger, result)
            if not self._book.step_off(job):
                company = ledger.release(job.job_id, now)
            wanted = result.peak_bytes + result.asked_bytes
            proof = ran_out and proved(
                job, lease, ledger, self._book.devices, wanted_bytes=wanted
            )
        self._book.stirred = True
        job.peak_bytes = max(job.peak_bytes, result.peak_bytes)
        succeeded = result.outcome == "succeeded"
        if job.state is State.ASSIGNED and (succeeded or ran_out):
            job.take(Step.START)
        self._learning.observe(job, ledger, result, company, culprit=culprit)
        if succeeded:
            self.clear(job.spec.job_type, now)
        outcome = outcome_of(job, result, now)
        if job.cancelling:  # said so already: a value that comes now is too late
            return self._book.end(job, Step.CANCEL, outcome, now)
        if succeeded and job.runs_stand_in:
            job.stand_in_done = True
            return [*_unwanted(result), *self._book.requeue(job, "stand-in measured", now)]
        if ran_out:
            job.ooms += 1
            again = next_try(job, culprit=culprit, proof=proof)
            if again is not None:
                job.level, job.wary = again.level, again.wary
                why = "out of memory: runs again"
                return [*_unwanted(result), *self._book.requeue(job, why, now)]
            largest = self._book.profiles.largest_below(job.key, ledger.facts.device_class)
            text = report(job, ledger, result, largest, proof=proof)
            outcome = replace(outcome, error_text=text)
        elif may_retry(job, result.outcome, result.error_type, result.error_bases):
            return [*_unwanted(result), *self._retry(job, result.outcome, now)]
        if succeeded and job.spec.gpus == 1 and job.spec.kind != "lease":
            outcome = replace(outcome, fit=self._learning.how_many_fit(job, ledger))
        step = _STEPS.get(result.outcome, Step.RAISE)
        return self._book.end(job, step, outcome, now)

    def lose(
        self, job: Job, reason: str, now: float, *, proved_dead: bool = True
    ) -> list[Effect]:
        """Its worker is gone and nobody can say how far it got; its lease is gone too.

        Args:
            proved_dead: Else its body may run still, and no other may start beside it.
        """
        self._book.stirred = True
        retry = proved_dead and may_retry(job, "lost") and not self._is_poison(job, now)
        if retry and not job.cancelling:
            return self._retry(job, "lost", now)
        step = Step.CANCEL if job.cancelling else Step.LOSE_WORKER
        outcome = outcome_without_result(job, now, "JobLost", reason)
        return self._book.end(job, step, outcome, now)

    def give_back(self, job: Job, why: str, now: float) -> list[Effect]:
        """It is proved that this attempt never started: place it anew."""
        self._book.stirred = True
        job.unstarted += 1
        if job.cancelling:
            return self._book.end(job, Step.CANCEL, outcome_without_result(job, now), now)
        if self._is_poison(job, now):
            outcome = outcome_without_result(job, now, "JobNotStarted", QUARANTINED)
            return self._book.end(job, Step.RAISE, outcome, now)
        return self._book.requeue(job, why, now)

    def _is_poison(self, job: Job, now: float) -> bool:
        return self._book.poison.quarantined(job.spec.job_type, now) > 0

    def _retry(self, job: Job, cause: str, now: float) -> list[Effect]:
        job.retried += 1
        return self._book.requeue(job, f"{cause}: runs again, as its retries allow", now)

    def clear(self, job_type: str, now: float) -> None:
        """A run of this type has succeeded: it kills its workers no more."""
        if self._book.poison.blamed(job_type):
            self._blame(Death(job_type, 0.0, now))

    def blame(self, worker: Worker, now: float) -> list[Effect]:
        """A worker died, and not by order: those that ran on it share the blame."""
        types = {
            self._book.jobs[job_id].spec.job_type
            for job_id in worker.leads
            if self._may_run(self._book.jobs[job_id])
        }
        effects: list[Effect] = []
        for job_type in sorted(types):
            self._blame(Death(job_type, 1 / len(types), now))
            if self._book.poison.quarantined(job_type, now):
                facts = {"type": job_type}
                effects.append(Note("quarantined: it kills its workers", facts, "error"))
                effects += self._end_quarantined(job_type, now)
        return effects

    @staticmethod
    def _may_run(job: Job) -> bool:
        """Of short calls that follow each other it is not told which one runs."""
        return job.state is State.RUNNING or (job.train is not None and not job.rides)

    def _blame(self, death: Death) -> None:
        self._book.poison.blame(death)
        self._book.changes.batch.deaths.append(death)

    def _end_quarantined(self, job_type: str, now: float) -> list[Effect]:
        """Whoever waits with such a job is told instead of waiting for ever."""
        effects: list[Effect] = []
        for job in [one for one in self._book.queued() if one.spec.job_type == job_type]:
            self._book.withdraw(job)
            outcome = outcome_without_result(job, now, "JobNotStarted", QUARANTINED)
            effects += self._book.end(job, Step.REFUSE, outcome, now)
        return effects


def _unwanted(result: Result) -> list[Effect]:
    """The value of an attempt that is not the last is nobody's."""
    return [Discard(result.token)] if result.token else []
