"""Ending jobs before their time: decided once, whatever the job is doing."""

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, Numbered

from .book import Book, facts_of
from .effects import Effect, Note, Send
from .ends import outcome_without_result
from .jobs import LEASED, Job, State, Step
from .peers import NOBODY


class Cancelling:
    """Cancels jobs; those that run end when their worker has proved them gone."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def cancel(self, jobs: list[Job], how: str, now: float, why: str = "") -> list[Effect]:
        """End queued jobs here and now; have each worker end all of its own together."""
        effects: list[Effect] = []
        attempts: dict[str, list[AttemptId]] = {}
        for job in jobs:
            if job.state is State.QUEUED:
                effects += self._cancel_queued(job, now, why)
            elif job.state in LEASED:
                if not job.cancelling:
                    job.cancelling = True
                    self._book.keeping.touch(job)
                    effects.append(Note("cancelling", facts_of(job)))
                if job.job_id in self._book.adrift:  # its worker is told when it is back
                    self._book.adrift.cancel(job.job_id)
                    continue
                attempts.setdefault(job.worker, []).append(AttemptId(job.job_id, job.attempt))
        for incarnation, theirs in attempts.items():
            worker = self._book.workers[incarnation]
            effects += self._book.end_attempts(worker, how, theirs)
        return effects

    def _cancel_queued(self, job: Job, now: float, why: str) -> list[Effect]:
        unanswered = bool(job.missing)
        if not unanswered:
            self._book.withdraw(job)
        outcome = outcome_without_result(job, now, error_text=why)
        effects = self._book.end(job, Step.CANCEL, outcome, now)
        # Its client still waits for that; only now its number is sure.
        return [*(self.accepted([job]) if unanswered else []), *effects]

    def accepted(self, jobs: list[Job]) -> list[Effect]:
        """Whoever sent the last blob, it is the owners who wait for the answer."""
        numbers: dict[str, list[Numbered]] = {}
        for job in jobs:
            numbers.setdefault(job.session, []).append(Numbered(job.job_id, job.number))
        return [
            Send(session.peer, wire.Accepted(part))
            for owner, numbered in numbers.items()
            if (session := self._book.sessions[owner]).peer != NOBODY
            for part in parts(numbered, wire.MAX_JOBS_PER_MESSAGE)
        ]

    def expire(self, now: float, why: "dict[str, str]") -> list[Effect]:
        """Give up jobs that have waited for longer than they were to.

        Args:
            why: What each of them waited for.
        """
        effects: list[Effect] = []
        for job_id, reason in why.items():
            job = self._book.jobs[job_id]
            waited_s = now - max(job.queued_at, job.opened_at)
            text = f"it waited {waited_s:.1f} s (timeout={job.spec.timeout_s:g}): {reason}"
            self._book.waiting.remove(job)
            outcome = outcome_without_result(job, now, "WaitTimeout", text)
            effects += self._book.end(job, Step.EXPIRE, outcome, now)
        return effects
