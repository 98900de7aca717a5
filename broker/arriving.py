"""How calls of trains end: those that plainly returned together, all others one by one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.cloning import cloner
from grn_zmq.records import AttemptId, Outcome, Result

from . import handing
from .book import Book, facts_of
from .changes import Arrival
from .effects import Effect, Note, Send
from .ends import outcome_of
from .finishing import Finishing
from .jobs import LEASED, Job, State
from .learning import Learning
from .peers import Worker
from .trains import Credits, Train

_outcomes_like: Final = cloner(Outcome, "job_id", "wait_s", "run_s", "attempts")


class Arriving:
    """Takes what workers say of the calls of trains."""

    def __init__(
        self,
        book: Book,
        learning: Learning,
        finishing: Finishing,
        granted: Credits,
        answer: Callable[[Worker, list[AttemptId]], list[Effect]],
    ) -> None:
        self._book = book
        self._learning = learning
        self._finishing = finishing
        self._credits = granted
        self._answer_each = answer

    def arrive(self, worker: Worker, message: wire.Returned, now: float) -> list[Effect]:
        """End the jobs of these calls; who is special goes the way of every other job."""
        plain: list[int] = []
        effects: list[Effect] = []
        jobs = [self._book.jobs.get(one) for one in message.job_ids]
        for at, job in enumerate(jobs):
            if job is None or worker.leads.get(job.job_id) != message.attempts[at]:
                effects += self._abandoned(message.job_ids[at])
            elif not self._is_plain(job):
                effects += self._finishing.finish(job, worker, _result(message, at), now)
            else:
                plain.append(at)
        while plain:  # those of one call of `map`, in all but odd cases at once
            first = jobs[plain[0]]
            assert first is not None
            alike = [at for at in plain if _is_like(first, jobs[at])]
            effects += self._end(worker, message, alike, now)
            plain = [at for at in plain if not _is_like(first, jobs[at])]
        return [*effects, *self._answer(worker, message)]

    def _is_plain(self, job: Job) -> bool:
        """Whether at its end its value is to be kept and its client told, and nothing else."""
        spec = job.spec
        return (
            job.train is not None
            and job.stored
            and job.state in LEASED
            and not (job.cancelling or job.runs_stand_in or job.counted_by_parent)
            and not (spec.on_end or self._book.on_end or spec.token or spec.queue)
            and not (job.submitted_jobs or job.waiting_children)
            and job.watchers == (() if spec.detached else (job.session,))
            and not self._book.gates.awaits(job.job_id)
        )

    def _abandoned(self, job_id: str) -> list[Effect]:
        """Its lease is gone, it has ended or runs elsewhere: the late value does not count."""
        if job_id not in self._book.jobs:
            self._book.alarms += 1
        text = "ignored the result of an abandoned attempt"
        return [Note(text, {"job": job_id}, "warning")]

    def _end(
        self, worker: Worker, message: wire.Returned, chosen: list[int], now: float
    ) -> list[Effect]:
        """End jobs that are alike in all but id, times and value."""
        book = self._book
        job_ids = tuple([message.job_ids[at] for at in chosen])
        jobs = [book.jobs[one] for one in job_ids]
        run_s = tuple([message.run_s[at] for at in chosen])
        payloads = tuple([message.payloads[at] for at in chosen])
        first = jobs[0]
        self._learn(first, worker, message, sum(run_s) / len(run_s), now)
        first.peak_bytes = max(first.peak_bytes, message.peak_bytes)
        wait_s = tuple(
            [max(0.0, now - ran - one.queued_at) for one, ran in zip(jobs, run_s, strict=True)]
        )
        like = self._like(first, worker, _result(message, chosen[0]), now)
        attempts = tuple([one.attempt for one in jobs])
        outcomes = _outcomes_like(like, job_ids, wait_s, run_s, attempts)
        for one, outcome, ran, value in zip(jobs, outcomes, run_s, payloads, strict=True):
            one.state = State.SUCCEEDED
            one.outcome = outcome
            one.started_at, one.ended_at, one.begun = now - ran, now, None
            one.peak_bytes, one.result_bytes = first.peak_bytes, len(value)
        self._leave(worker, jobs, now)
        arrival = Arrival(like, now, job_ids, attempts, wait_s, run_s, payloads)
        self._count(jobs, arrival)
        facts = {**facts_of(first), "outcome": "succeeded", "count": len(jobs)}
        return [Note("ended", facts), *self._tell(jobs, arrival, now)]

    def _like(self, job: Job, worker: Worker, result: Result, now: float) -> Outcome:
        outcome = outcome_of(job, result, now)
        fit = self._learning.how_many_fit(job, worker.ledger)
        return replace(outcome, payload=b"", fit=fit)

    def _learn(
        self, job: Job, worker: Worker, message: wire.Returned, run_s: float, now: float
    ) -> None:
        """One look at all of them: they are too short to be told apart."""
        result = replace(_result(message, 0), run_s=run_s, payload=b"")
        self._learning.observe(job, worker.ledger, result, company=1.0, culprit=False)
        self._finishing.clear(job.spec.job_type, now)

    def _leave(self, worker: Worker, jobs: list[Job], now: float) -> None:
        """Take them off their trains; the lease goes on with whoever is next, or is free."""
        holders: list[tuple[Job, Train]] = []
        for job in jobs:
            train = job.train
            assert train is not None
            if train.holder is job:
                holders.append((job, train))
                continue
            del worker.leads[job.job_id]
            del train.riders[job.job_id]
            job.train = None
        for job, train in holders:
            self._book.leave(job, now)
            if train.holder is job:
                self._book.stirred = True
                self._credits.went_well(job.key)

    def _count(self, jobs: list[Job], arrival: Arrival) -> None:
        book, first = self._book, jobs[0]
        book.result_bytes += sum(map(len, arrival.payloads))
        book.payload_bytes -= sum([one.payload_bytes for one in jobs])
        ids = dict.fromkeys(arrival.job_ids)
        book.ended.update(ids)
        book.valued.update(ids)
        book.ends += len(jobs)
        book.bound[first.session] -= len(jobs)
        if not book.bound[first.session]:
            del book.bound[first.session]
        keeps = book.can_be_had_again(first)
        if keeps:
            book.retriable.update(ids)
        else:
            for digest in set(first.digests):
                book.blobs.let_go(digest, len(jobs))
        book.keeping.arrive(replace(arrival, keep_payload=keeps), durable=first.spec.detached)

    def _tell(self, jobs: list[Job], arrival: Arrival, now: float) -> list[Effect]:
        first = jobs[0]
        session = self._book.sessions.get(first.session)
        if first.spec.detached or session is None:
            if not first.spec.detached:
                for job in jobs:
                    self._book.fading.add(job, now)
            return []
        return handing.hand_over(session, arrival, self._book.jobs)

    def _answer(self, worker: Worker, message: wire.Returned) -> list[Effect]:
        known = all(one in self._book.jobs for one in message.job_ids)
        epoch = self._book.epoch
        if known:
            return [Send(worker.peer, wire.Arrived(epoch, message.job_ids, message.attempts))]
        ids = map(AttemptId, message.job_ids, message.attempts)
        return self._answer_each(worker, list(ids))

    def give_back(self, worker: Worker, message: wire.GivenBack, now: float) -> list[Effect]:
        """Place anew what was to follow others and did not begin; the first stays first."""
        if message.epoch != self._book.epoch:
            return []
        led = [one for one in message.attempts if worker.leads.get(one.job_id) == one.attempt]
        back = [self._book.jobs[one.job_id] for one in led]
        back = [job for job in back if job.state is State.ASSIGNED]
        for key in {job.key for job in back}:
            self._credits.came_back(key, now)
        effects: list[Effect] = []
        for job in reversed(back):
            effects += self._finishing.give_back(job, "came back: placed again", now)
        return effects


def _is_like(first: Job, other: Job | None) -> bool:
    return other is not None and (
        other is first
        or (
            other.spec is first.spec
            and other.session == first.session
            and other.device == first.device
            and other.predicted_bytes == first.predicted_bytes
            and other.attempt == first.attempt
        )
    )


def _result(message: wire.Returned, at: int) -> Result:
    """One of them as an ordinary result."""
    return Result(
        job_id=message.job_ids[at],
        attempt=message.attempts[at],
        outcome="succeeded",
        exit_status=None,
        signal=None,
        peak_bytes=message.peak_bytes,
        need_bytes=0,
        asked_bytes=0,
        utilisation=message.utilisation,
        mean_utilisation=message.utilisation,
        seen=message.seen,
        run_s=message.run_s[at],
        error_type="",
        error_text="",
        payload=message.payloads[at],
    )
