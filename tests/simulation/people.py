"""What people order through commands: any client may, at any time, about any job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grn_zmq import wire
from tests.control_examples import a_cell_row
from tests.simulation.declared import an_order_about_queues
from tests.simulation.stage import NEEDS

if TYPE_CHECKING:
    from tests.simulation.clients import SimClient
    from tests.simulation.world import World


def an_order(client: SimClient) -> wire.Message:
    """Something that people want to know, or to be done."""
    rng, world = client.rng, client.world
    if rng.random() < 0.3:
        return an_order_about_queues(client)
    some = tuple(rng.choices(world.job_ids, k=2)) if world.job_ids else ()
    one = some[0] if some else world.new_id()
    orders: list[wire.Message] = [
        wire.FindJobs(("@", "1-3", one[-8:])),
        wire.AskJob(one),
        wire.AskWhy(one),
        wire.AskScene(rng.randrange(3), 20),
        wire.Hold(some, held=rng.random() < 0.5),
        wire.Hold(some, held=False),
        wire.Prioritise(some, rng.choice([-1, 0, 2])),
        wire.Pause(rng.random() < 0.3),
        wire.AskInputs(rng.choice([one, *world.core.book.retriable])),
        wire.AskCells(0),
        wire.PutCells((a_cell_row(job_type=rng.choice(list(NEEDS)), by={}),)),
        wire.Clean(what_may_be_cleaned(world)),
    ]
    return rng.choice(orders)


def what_may_be_cleaned(world: World) -> tuple[str, ...]:
    """Ended jobs of clients that are gone, and of which no submission is on its way.

    Once forgotten, an id that is submitted again is a new job: nobody must do so here.
    """
    late = {
        spec.job_id
        for _, message in world.strays
        if isinstance(message, wire.Submit)
        for spec in message.jobs
    }
    gone = {one for client in world.clients if not client.alive for one in client.submitted}
    kept = {one for client in world.clients if client.alive for one in client.submitted}
    ended = world.disk.tables.ends.keys() & gone - kept - late
    return tuple(sorted(ended)[: world.rng.choice([0, 1, 2])])


def gates_of(client: SimClient) -> dict[str, Any]:
    """What may keep a new job from starting, for one job in four."""
    rng, known = client.rng, client.world.job_ids
    if rng.random() < 0.75:
        return {}
    before = tuple(rng.choices(known, k=rng.choice([1, 1, 2]))) if known else ()
    return rng.choice(
        [
            {"after": before},
            {"after_any": before},
            {"begin_s": rng.choice([0.1, 3.0])},
            {"held": True},
            {"exclusive": True},
        ]
    )


def let_all_go_on(client: SimClient) -> None:
    """At the end nobody may keep a job from starting any more."""
    client.say(wire.Pause(False))
    client.say(wire.Hold(tuple(client.world.job_ids), held=False))
