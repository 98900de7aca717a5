"""How a story ends: faults stop, all work is done, and nothing may be missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from broker.needs import as_texts
from tests.simulation.crew import SimWorker
from tests.simulation.people import let_all_go_on

if TYPE_CHECKING:
    from tests.simulation.world import World

MOST_ROUNDS: Final = 400


def everybody_calls(world: World) -> None:
    """New jobs begin, and the function of each that runs calls others."""
    client = world.new_client()
    for _ in range(3):
        client.submit()
        _all_are_here(world)
        _deliver_all(world)
        for worker in world.living_workers():
            for _ in range(len(worker.runs)):
                worker.start()
            worker.grow()
    for worker in world.living_workers():
        for _ in range(len(worker.runs)):
            worker.call_a_job()


def drain(world: World) -> None:
    """Faults stop, everybody comes back, and all work is done."""
    world.draining = True
    for client in world.clients:
        client.silent_until = 0.0
    for _ in range(MOST_ROUNDS):
        _round(world)
        if _all_is_done(world):
            return
    live = [(job.number, job.state.value) for job in world.core.book.jobs.values() if job.live]
    held = [str(world.core.why(job, world.now)) for job in world.core.book.waiting]
    raise AssertionError(f"the work is never done: {live}, {held}")


def _round(world: World) -> None:
    world.now += 1.0
    _all_are_here(world)
    while world.up and (world.dying or world.broken):
        world.kernel()
    while world.strays:
        world.hand_over(*world.strays.pop(0))
    for worker in world.workers:
        worker.report()
        worker.repeat_results()
        for _ in range(len(worker.runs)):
            worker.start()
        worker.end_well()
        worker.go_if_done()
    for client in world.living_clients():
        client.release()
    let_all_go_on((world.living_clients() or [world.new_client()])[0])
    _deliver_all(world)
    world.tick()
    world.end_turn()


def _all_are_here(world: World) -> None:
    """A broker and a worker for each device, which is theirs alone."""
    if not world.up:
        world.start_broker()
    for slot in world.slots:
        slot.foreign = 0
        worker = world.workers[slot.index]
        if not worker.alive:
            world.workers[slot.index] = worker = SimWorker(world, slot)
        worker.silent_until, worker.idle, worker.spool_broken = 0.0, 0, False


def _deliver_all(world: World) -> None:
    while world.up:
        actors = [*world.living_clients(), *world.living_workers()]
        if not any(one.outbox or one.inbox for one in actors):
            return
        while world.dying and world.up:
            world.kernel()
        for actor in actors:
            while actor.outbox and world.up:
                world.deliver(actor)
            world.end_turn()
            while actor.inbox:
                actor.read()


def _all_is_done(world: World) -> bool:
    idle = not any(one.runs or one.unrecorded or one.leaving for one in world.workers)
    quiet = not world.dying and not any(
        one.inbox or one.outbox for one in [*world.living_clients(), *world.workers]
    )
    live = any(job.live for job in world.core.book.jobs.values())
    return world.up and idle and quiet and not live and not world.core.book.stopping


def judge_the_end(world: World) -> None:
    book, oracle = world.core.book, world.oracle
    oracle.look_at_disk()
    tables = world.disk.tables
    assert tables.jobs.keys() == tables.ends.keys() == book.jobs.keys()
    assert not tables.lives, f"{tables.lives} are kept as live"
    assert not any(worker.ledger.leases or worker.leads for worker in book.workers.values())
    kept = {one["name"] for one in json.loads(tables.queues or "[]")}
    assert kept == {one.name for one in book.queues if one.name}, "queues were forgotten"
    for queue in book.queues:
        assert not queue.running, f"{queue.running} still have something of {queue.name}"
        assert as_texts(queue.pools.left()) == queue.capacity, f"{queue.name} lost something"
    assert len(book.waiting) == len(book.gates) == len(book.adrift) == 0
    assert not book.bound
    for job_id, end in tables.ends.items():
        if end.outcome.outcome == "succeeded":
            assert oracle.bodies[job_id] >= 1, f"{job_id} succeeded without running"
    for client in world.living_clients():
        assert not client.unaccepted, "a submission was never answered"
        untold = client.waiting | client.attached
        assert not untold, f"{client.session} was not told of {untold}"
        world.dying.append(client.session)
        client.alive = False
    while world.dying:
        world.kernel()
    world.end_turn()
    needed = {digest for one in book.retriable for digest in book.jobs[one].digests}
    assert tables.blobs.keys() == needed, "blobs are kept for nobody"
    assert len(book.blobs) == len(needed), "blobs are remembered for nobody"
    assert not book.sessions
    assert not tables.sessions
