"""Jobs that declare what they need: devices, shares, named resources; judged from outside."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from grn_zmq import wire
from grn_zmq.amounts import parse_amount
from grn_zmq.records import JobSpec, Offer, Run

if TYPE_CHECKING:
    from tests.simulation.clients import SimClient
    from tests.simulation.world import World

CAPACITY: Final = {"cpu": {"0": "2"}, "licence": {"0": "1", "1": "1"}}
QUEUE: Final = "night"
OFFERS: Final = ((), (), (Offer("tf", "prefix", "env"),))
NEEDS: Final[tuple[dict[str, Any], ...]] = (
    {"gpus": 0},
    {"gpus": 0, "resources": {"cpu": "0.5"}},
    {"gpus": 2},
    {"gpus": 2, "resources": {"licence": "1"}},
    {"gpus": 3},
    {"gpus": -1},
    {"share": "0.5"},
    {"share": "1/3"},
    {"share": "1"},
    {"resources": {"cpu": "1.5"}},
    {"resources": {"cpu": "0.1", "licence": "2"}},
    {"resources": {"printer": "1"}},
    {"queue": QUEUE, "gpus": 0, "resources": {"cpu": "0.5"}},
    {"queue": QUEUE, "gpus": 0, "resources": {"cpu": "2"}},
    {"queue": QUEUE, "share": "0.5"},
    {"queue": QUEUE, "gpus": 2},
    {"queue": QUEUE, "gpus": -1},
    {"environment": "tf"},
    {"among": ("0",)},
)


def declared_by(client: SimClient) -> dict[str, Any]:
    """What a new job may declare, for one job in three."""
    return client.rng.choice(NEEDS) if client.rng.random() < 0.33 else {}


def an_order_about_queues(client: SimClient) -> wire.Message:
    rng = client.rng
    capacity = rng.choice(
        [
            {"cpu": {"0": "2"}, "gpu": {"0": "1", "1": "1", "2": "1"}},
            {"cpu": {"0": "1", "1": "1"}, "gpu": {"0": "1"}},
            {"gpu": {"0": "0.5", "7": "1"}},
        ]
    )
    orders: list[wire.Message] = [
        wire.CreateQueue(client.world.new_id(), QUEUE, capacity, (), rng.choice([None, 2])),
        wire.CreateQueue(client.world.new_id(), QUEUE, capacity, (), None),
        wire.DeleteQueue(QUEUE, end_running=rng.random() < 0.5),
        wire.AskQueues(rng.choice(["", QUEUE])),
        wire.AskEnvironments(),
    ]
    return rng.choice(orders)


def judge_start(world: World, run: Run, alive: dict[str, Run]) -> None:
    """A body begins: is it where it may be, beside those whose jobs still count?"""
    spec = world.specs[run.job_id]
    _judge_devices(world, run, spec)
    if not world.core.is_live(run.job_id):
        return  # given up while its worker was away, which is about to be told
    if spec.parent:  # where everybody waits for others, all may be beside each other
        return
    beside = [
        one
        for one in alive.values()
        if not world.specs[one.job_id].parent and world.core.is_live(one.job_id)
    ]
    mine = {one.uuid for one in run.devices}
    for other in beside:
        shared = mine & {one.uuid for one in other.devices}
        alone = _whole(spec) or _whole(world.specs[other.job_id])
        assert not (shared and alone), f"{run.job_id} beside {other.job_id} on {shared}"
    _judge_amounts(run, spec, world, beside)


def _judge_devices(world: World, run: Run, spec: JobSpec) -> None:
    count = len({one.uuid for one in run.devices})
    assert count == len(run.devices), f"{run.job_id} has a device twice"
    wanted = spec.gpus if spec.gpus >= 0 else count
    assert count == wanted, f"{run.job_id} has {count} devices of {wanted}"
    if spec.among:
        assert {str(one.index) for one in run.devices} <= set(spec.among)


def _judge_amounts(run: Run, spec: JobSpec, world: World, beside: list[Run]) -> None:
    """What bodies of one queue have together is no more than there is."""
    for name, amount in spec.resources.items():
        granted = sum(map(parse_amount, run.granted[name].values()), start=Fraction(0))
        assert granted == parse_amount(amount), f"{run.job_id} has {granted} of {name}"
    if spec.queue:  # its capacity may be another by now
        return
    held: dict[tuple[str, str], Fraction] = {}
    for one in (run, *beside):
        if not world.specs[one.job_id].queue:
            for name, instances in one.granted.items():
                for instance, text in instances.items():
                    before = held.get((name, instance), Fraction(0))
                    held[name, instance] = before + parse_amount(text)
    for (name, instance), used in held.items():
        most = parse_amount(CAPACITY[name][instance])
        assert used <= most, f"{used} of {name} {instance} are in use, there are {most}"


def _whole(spec: JobSpec) -> bool:
    return spec.exclusive or spec.gpus not in (0, 1) or spec.share == "1"
