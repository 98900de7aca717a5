"""Bugs that are planted on purpose: the stories are worth something if they notice each."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

import pytest

from broker import (
    company,
    finishing,
    greeting,
    placing,
    reconciling,
    restoring,
    scheduler,
    viewing,
)
from broker.blobs import Blobs
from broker.book import Book
from broker.changes import Batch, Life
from broker.clients import Clients
from broker.core import BrokerCore
from broker.effects import Effect, Note
from broker.finishing import Finishing
from broker.fleet import Fleet
from broker.greeting import Greetings
from broker.jobs import Job, State
from broker.keeping import Keeping
from broker.ledger import Ledger
from broker.missing import Missing
from broker.placing import Placer
from broker.queues import Queue, Queues
from broker.reconciling import Verdict
from broker.recovering import Again
from broker.reservations import Reservations
from broker.scheduler import DeviceView
from broker.waiting import Waiting, WaitingClass
from grn_zmq import wire
from tests.simulation.crew import SimWorker
from tests.simulation.spool import SimSpool
from tests.simulation.world import World

# Of these first seeds at least one must notice each planted bug. The rarest is noticed by one
# story in fifty: with 300 it is no matter of luck, whatever the seeds come to mean.
SEEDS_PER_BUG: Final = 300

Patch = Callable[[pytest.MonkeyPatch], None]


def instead(owner: type, name: str, method: Callable[..., Any]) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, method)


def in_module(module: ModuleType, name: str, function: Callable[..., Any]) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(module, name, function)


def nothing(*_: object, **__: object) -> None:
    pass


def free_but_for_strangers(self: Ledger, without: frozenset[str] = frozenset()) -> int:
    charged = sum(
        lease.charged_bytes for one, lease in self.leases.items() if one not in without
    )
    return self.facts.total_bytes - self.idle_bytes - charged


def free_but_for_leases(self: Ledger, without: frozenset[str] = frozenset()) -> int:
    return self.facts.total_bytes - self.foreign_bytes - self.idle_bytes


def free_by_promise_only(self: Ledger, without: frozenset[str] = frozenset()) -> int:
    promised = sum(
        lease.lease_bytes for one, lease in self.leases.items() if one not in without
    )
    return self.facts.total_bytes - self.foreign_bytes - self.idle_bytes - promised


def job_of_any_attempt(self: Any, worker: Any, job_id: str, attempt: int) -> Job | None:
    return self._book.jobs[job_id] if job_id in worker.leads else None


def job_of_any_worker(self: Any, worker: Any, job_id: str, attempt: int) -> Job | None:
    job: Job | None = self._book.jobs.get(job_id)
    return job if job is not None and job.worker else None


def requeue_without_the_stand_in_done(self: Any, job: Job, why: str) -> list[Any]:
    job.state = State.SUCCEEDED
    return []


def never_the_same(self: Job, spec: object) -> bool:
    return False


_on_hello = Clients.on_hello


def hello_without_outcomes(self: Clients, peer: bytes, message: wire.Hello) -> list[Effect]:
    effects = _on_hello(self, peer, message)
    return [one for one in effects if not isinstance(getattr(one, "message", 0), wire.Ended)]


_view_of = viewing.view_of
_finish = Finishing.finish


def view_as_if_open(*arguments: Any) -> DeviceView:
    view = _view_of(*arguments)
    view.closed = False
    return view


def try_for_ever(job: Job, *, culprit: bool, proof: bool) -> Again:
    return Again(0, wary=False)


def unlist_the_first(self: Any, waiting: WaitingClass) -> None:
    del self._ordered[0]


def finish_without_stir(self: Any, *arguments: Any) -> list[Effect]:
    effects = _finish(self, *arguments)
    self._book.stirred = False
    return effects


_assign, _take, _judge = BrokerCore._assign, Keeping.take, reconciling.judge
_moved, _restore_life, _restore_end = (
    Greetings._moved,
    restoring._restore_life,
    restoring._restore_end,
)
_accept, _sim_finish = Book.accept, SimWorker._finish


def assign_without_keeping(self: BrokerCore, job: Job, worker: Any, leases: Any) -> Note:
    note = _assign(self, job, worker, leases)
    self.book.keeping._touched.pop(job.job_id)
    return note


def take_without_durable(self: Keeping) -> Batch:
    return replace(_take(self), durable=False)


def take_without_ends(self: Keeping) -> Batch:
    return replace(_take(self), ends=[])


def take_without_sessions(self: Keeping) -> Batch:
    return replace(_take(self), sessions=[])


def take_a_turn_late(self: Any) -> Batch:
    late: Batch = getattr(self, "late", None) or Batch()
    self.late = self.book.keeping.take()
    return late


def judge_kindly(*arguments: Any, **facts: Any) -> Verdict:
    verdict = _judge(*arguments, **facts)
    return Verdict.NEVER if verdict is Verdict.LOST else verdict


def move_and_forget_the_number(self: Any, worker: Any, *arguments: Any) -> None:
    _moved(self, worker, *arguments)
    worker.greeting = replace(worker.greeting, greeting=0)


def restore_as_queued(book: Book, job: Job, life: Life, *others: Any) -> None:
    _restore_life(book, job, replace(life, state="queued"), *others)


def restore_without_cancel(book: Book, job: Job, life: Life, *others: Any) -> None:
    _restore_life(book, job, replace(life, cancelling=False), *others)


def restore_without_counts(book: Book, job: Job, life: Life, *others: Any) -> None:
    _restore_life(book, job, replace(life, retried=0, ooms=0), *others)


def restore_as_failed(book: Book, job: Job, kept: Any) -> None:
    _restore_end(book, job, kept)
    assert job.outcome is not None
    job.outcome = replace(job.outcome, outcome="failed")
    job.state = State.FAILED


def accept_by_any_number(self: Book, *arguments: Any) -> Job:
    self.last_admitted = 0
    return _accept(self, *arguments)


def finish_and_forget(self: SimWorker, *arguments: Any) -> None:
    _sim_finish(self, *arguments)
    self.unrecorded.popitem()
    self.slot.spool.log.pop()


def hold_without_keeping(self: Any, digest: str) -> None:
    self._kept[digest].jobs += 1


BUGS: Final[dict[str, Patch]] = {
    "leases are never released": instead(Ledger, "release", nothing),
    "strangers are not counted": instead(Ledger, "free_bytes", free_but_for_strangers),
    "other leases are not counted": instead(Ledger, "free_bytes", free_but_for_leases),
    "growth is not counted": instead(Ledger, "free_bytes", free_by_promise_only),
    "parents do not shrink": instead(Ledger, "shrink_to_use", nothing),
    "old attempts count": instead(Fleet, "_job_of", job_of_any_attempt),
    "results of any worker count": instead(Fleet, "_job_of", job_of_any_worker),
    "jobs of dead workers are forgotten": instead(Finishing, "lose", lambda *_, **__: []),
    "the queue forgets to remove": instead(Waiting, "remove", nothing),
    "parents do not count": instead(Book, "_note_parent", nothing),
    "stand-ins end the job": instead(Book, "requeue", requeue_without_the_stand_in_done),
    "arrived blobs are not noticed": instead(Book, "arrived", lambda *_: []),
    "blobs are never let go": instead(Blobs, "let_go", nothing),
    "blobs are not held for jobs": instead(Blobs, "hold", nothing),
    "repetitions are taken for conflicts": instead(Job, "is_of", never_the_same),
    "who attaches is told nothing": instead(Clients, "_on_attach", lambda *_: []),
    "a returning client is told nothing": instead(Clients, "on_hello", hello_without_outcomes),
    "ancestors count": in_module(placing, "ancestors", lambda *_: frozenset()),
    "parents wait for each other": in_module(
        company, "_all_if_all_wait", lambda *_: frozenset()
    ),
    "a type is measured twice": instead(Placer, "_being_measured", lambda *_: False),
    "late parents are measured on": instead(Placer, "_stop_measuring", nothing),
    "who must be alone is not": in_module(placing, "view_of", view_as_if_open),
    "out of memory is retried for ever": in_module(finishing, "next_try", try_for_ever),
    "resources are not given back": instead(Queues, "release", nothing),
    "queues have no end": instead(Queue, "fits", lambda *_: True),
    "a restart forgets who has what": instead(Queues, "adopt", nothing),
    "a restart forgets queues": instead(Queues, "restore", nothing),
    "guests are forgotten": instead(Greetings, "_take_guests", nothing),
    "of several devices one is given twice": in_module(
        scheduler, "closest", lambda count, devices: [devices[0]] * count
    ),
    "more devices are waited for than there are": instead(Missing, "_too_few", lambda *_: None),
    "the queue is out of order": instead(Waiting, "_unlist", unlist_the_first),
    "released room wakes nobody": instead(Finishing, "finish", finish_without_stir),
    "reservations are for ever": instead(Reservations, "expire", nothing),
    "assignments are not kept": instead(BrokerCore, "_assign", assign_without_keeping),
    "messages leave before the commit": instead(BrokerCore, "take_batch", take_a_turn_late),
    "ends are not kept": instead(Keeping, "take", take_without_ends),
    "clients are not kept": instead(Keeping, "take", take_without_sessions),
    "blobs are not kept": instead(Blobs, "hold", hold_without_keeping),
    "detached jobs are not durable": instead(Keeping, "take", take_without_durable),
    "retries are for ever": in_module(finishing, "may_retry", lambda *_: True),
    "what was interrupted is queued again": in_module(greeting, "judge", judge_kindly),
    "late greetings count": instead(Greetings, "_moved", move_and_forget_the_number),
    "adrift jobs are queued at a restart": in_module(
        restoring, "_restore_life", restore_as_queued
    ),
    "a restart forgets cancels": in_module(restoring, "_restore_life", restore_without_cancel),
    "a restart forgets what was tried": in_module(
        restoring, "_restore_life", restore_without_counts
    ),
    "a restart changes outcomes": in_module(restoring, "_restore_end", restore_as_failed),
    "numbers go backwards": instead(Book, "accept", accept_by_any_number),
    "the fence ignores the number of the greeting": instead(
        SimWorker, "believes", lambda *_: True
    ),
    "starts are not in the spool": instead(SimSpool, "started", nothing),
    "results are forgotten before they are recorded": instead(
        SimWorker, "_finish", finish_and_forget
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)

    assert any(goes_wrong(seed) for seed in range(SEEDS_PER_BUG)), f"nobody noticed: {bug}"


def goes_wrong(seed: int) -> bool:
    try:
        World(seed).run()
    except Exception:
        return True
    return False
