"""What must hold after every event, whatever happened. The simulator asserts it each time."""

from collections import Counter

from .book import Book
from .jobs import LEASED, LIVE, State


def check(book: Book) -> None:
    """Assert every rule of the system; a new rule is a new function here first."""
    _queue_holds_exactly_the_queued(book)
    _leases_belong_to_running_attempts(book)
    _several_devices_are_all_or_none(book)
    _trains_have_one_lease(book)
    _resources_are_held_by_who_runs(book)
    _who_is_adrift_waits_for_an_absent_worker(book)
    _sessions_know_what_is_bound_to_them(book)
    _no_grant_exceeds_its_device(book)
    _measuring_is_alone(book)
    _who_must_be_alone_is(book)
    _nothing_runs_more_often_than_it_may(book)
    _every_job_ends_exactly_once(book)
    _parents_count_their_children(book)
    _blobs_are_kept_while_needed(book)


def _queue_holds_exactly_the_queued(book: Book) -> None:
    waiting = {job.job_id for job in book.waiting}
    assert len(waiting) == len(book.waiting), "a job is in the queue twice"
    for job in book.jobs.values():
        queued = job.state is State.QUEUED and not job.missing
        assert (queued and not job.gated) == (job.job_id in waiting), (
            f"{job.job_id} is {job.state}, queue differs"
        )
        assert (queued and job.gated) == (job in book.gates), f"{job.job_id}: gates differ"
        for job_id in job.after if queued else ():
            assert book.jobs[job_id].live, f"{job.job_id} waits for {job_id}, which has ended"


def _leases_belong_to_running_attempts(book: Book) -> None:
    """Who leads a job answers for it; its leases are where the job says, each once."""
    leaders: dict[str, str] = {}
    for worker in book.workers.values():
        for job_id, attempt in worker.leads.items():
            assert job_id not in leaders, f"{job_id} is led twice"
            leaders[job_id] = worker.incarnation
            assert attempt == book.jobs[job_id].attempt, "an older attempt is led"
    for job in book.jobs.values():
        leader = leaders.get(job.job_id)
        adrift = job.job_id in book.adrift
        assert (job.state in LEASED) == (leader is not None or adrift), f"{job.job_id}: leader?"
        assert leader is None or not adrift, f"{job.job_id} is adrift and has a leader"
        assert leader is None or job.worker == leader, f"{job.job_id} is led elsewhere"
        assert job.state in LEASED or not job.places, f"{job.job_id} has devices and runs not"
    _leases_are_where_their_jobs_are(book)


def _leases_are_where_their_jobs_are(book: Book) -> None:
    for worker in book.workers.values():
        for job_id, lease in worker.ledger.leases.items():
            job = book.jobs[job_id]
            assert lease.attempt == job.attempt, "a lease of an older attempt"
            assert lease.lease_bytes >= 0, "a promise below zero"
            assert worker.name in job.places, f"{job_id} has a lease nobody knows of"
            assert lease.guest == (job.places[0] != worker.name), f"{job_id}: guest?"
    for job in book.jobs.values():
        for name in job.places:
            there = book.worker_at(name)
            away = there is None or (name == job.places[0] and job.job_id in book.adrift)
            held = there is not None and job.job_id in there.ledger.leases
            assert held != away, f"{job.job_id} on {name}: lease {held}, away {away}"


def _resources_are_held_by_who_runs(book: Book) -> None:
    book.queues.check()
    for queue in book.queues:
        inside = {one.job_id for one in book.jobs.values() if one.live and one.spec.queue}
        assert queue.inside == {
            one for one in inside if book.jobs[one].spec.queue == queue.name
        }
        for job_id in queue.running:
            job = book.jobs[job_id]
            assert job.state in LEASED, f"{job_id} has resources and runs not"
            assert job.spec.queue == queue.name, f"{job_id} is in another queue"
    for job in book.jobs.values():
        if job.state in LEASED and not job.rides:
            queue_of = book.queues.of(job)
            assert job.job_id in queue_of.running, f"{job.job_id} runs and is not counted"
            assert job.granted.keys() == queue_of.needs(job.spec).keys() or queue_of.closing, (
                f"{job.job_id} lacks something"
            )
        else:
            assert not job.granted, f"{job.job_id} has resources and runs not"


def _several_devices_are_all_or_none(book: Book) -> None:
    for job in book.jobs.values():
        if job.state in LEASED and job.spec.gpus >= 0 and not job.rides:
            assert len(job.places) == job.spec.gpus, f"{job.job_id} has {job.places}"
        assert len(set(job.places)) == len(job.places), f"{job.job_id}: one device twice"


def _trains_have_one_lease(book: Book) -> None:
    """Who rides has no device but that of the holder, and follows it under the same worker."""
    for job in book.jobs.values():
        train = job.train
        if train is None:
            continue
        assert job.state in LEASED, f"{job.job_id} is {job.state} in a train"
        assert train.holder.train is train, f"{job.job_id}: its train has no holder"
        assert (job.job_id in train.riders) == job.rides, f"{job.job_id} rides and rides not"
        assert not (job.rides and (job.places or job.granted)), f"{job.job_id} rides and holds"
        assert job.worker == train.holder.worker, f"{job.job_id} rides elsewhere"


def _who_is_adrift_waits_for_an_absent_worker(book: Book) -> None:
    here = {worker.greeting.worker for worker in book.workers.values()}
    for job_id in book.adrift:
        life = book.adrift.life(job_id)
        assert life is not None
        assert life.attempt == book.jobs[job_id].attempt, f"{job_id}: adrift with an old life"
        assert life.worker not in here, f"{job_id} is adrift, but its worker is here"


def _sessions_know_what_is_bound_to_them(book: Book) -> None:
    bound: Counter[str] = Counter()
    for job in book.jobs.values():
        bound.update({job.session, *job.watchers} if job.live else ())
        assert not job.live or all(one in book.sessions for one in job.watchers), (
            "a dead watcher"
        )
        owned = job.session in book.sessions or job.spec.detached or job.cancelling
        assert owned or not job.live, f"{job.job_id} lives on without its client"
    assert book.bound == bound, f"{book.bound} bound, counted {bound}"
    for session in book.sessions.values():
        assert not session.unsent.keys() & session.in_flight.keys(), "sent and unsent"
        for job_id in session.unreceived:
            assert not book.jobs[job_id].live, "told of the end of a live job"


def _no_grant_exceeds_its_device(book: Book) -> None:
    """Growth and strangers may overfill a device later; a promise never does."""
    for worker in book.workers.values():
        assert worker.ledger.free_after_grant >= 0, f"{worker.label} was promised beyond"


def _measuring_is_alone(book: Book) -> None:
    types: set[str] = set()
    for worker in book.workers.values():
        measuring = [lease for lease in worker.ledger.leases.values() if lease.measuring]
        assert len(measuring) <= 1, f"two measuring runs on {worker.label}"
        for lease in measuring:
            assert lease.job_type not in types, f"{lease.job_type} is measured twice at once"
            types.add(lease.job_type)
            company = worker.ledger.leases.keys() - lease.beside - {lease.job_id}
            assert not company, f"{company} beside a measuring run"


def _every_job_ends_exactly_once(book: Book) -> None:
    for job in book.jobs.values():
        assert (job.state in LIVE) == (job.outcome is None), f"{job.job_id} and its outcome"
        assert (job.outcome is None) == (job.ended_at is None)
        assert (job.job_id in book.ended) == (job.state not in LIVE)
        assert job.outcome is None or job.outcome.outcome == job.state.value


def _parents_count_their_children(book: Book) -> None:
    counts: dict[str, int] = {}
    for job in book.jobs.values():
        if job.counted_by_parent:
            assert job.live, f"{job.job_id} ended but is still waited for"
            counts[job.spec.parent] = counts.get(job.spec.parent, 0) + 1
    for job in book.jobs.values():
        assert job.waiting_children == counts.get(job.job_id, 0), f"children of {job.job_id}"


def _blobs_are_kept_while_needed(book: Book) -> None:
    for job in book.jobs.values():
        if job.live:
            for digest in set(job.digests) - job.missing:
                assert digest in book.blobs, f"{job.job_id} lost its {digest[:8]}"


def _who_must_be_alone_is(book: Book) -> None:
    for worker in book.workers.values():
        for lease in worker.ledger.leases.values():
            company = worker.ledger.leases.keys() - lease.beside - {lease.job_id}
            above = {
                one.job_id
                for one in worker.ledger.leases.values()
                if lease.job_id in one.beside
            }
            assert not lease.alone or company <= above, (
                f"{company} beside the last try of a job"
            )


def _nothing_runs_more_often_than_it_may(book: Book) -> None:
    for job in [one for one in book.jobs.values() if one.live]:
        assert job.retried <= job.spec.retries, f"{job.job_id} was retried too often"
        runs_out = min(job.ooms, job.spec.oom_retries)
        assert job.starts <= 1 + runs_out + job.spec.has_stand_in + job.retried, (
            f"{job.job_id} ran too often"
        )
