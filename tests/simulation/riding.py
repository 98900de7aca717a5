"""Trains in the simulated world: calls that ride behind each other, and how they arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.profiles import Observed, Profiles
from grn_zmq import wire
from grn_zmq.records import AttemptId, JobSpec, Result, Run
from grn_zmq.tails import NO_TAIL
from tests.builders import MIB, a_spec
from tests.simulation.stage import BLOBS, NEEDS

if TYPE_CHECKING:
    from tests.simulation.clients import SimClient
    from tests.simulation.crew import SimRun, SimWorker
    from tests.simulation.disk import SimDisk


def each_of(run: Run) -> list[Run]:
    """A run and those that follow it, one by one."""
    tail = run.tail
    columns = zip(tail.job_ids, tail.attempts, tail.numbers, tail.payloads, strict=True)
    return [
        replace(run, tail=NO_TAIL),
        *(
            replace(
                run, job_id=job_id, attempt=attempt, number=number, payload=data, tail=NO_TAIL
            )
            for job_id, attempt, number, data in columns
        ),
    ]


def unbegun(worker: SimWorker) -> list[SimRun]:
    """Those that were to follow others and have not begun."""
    return [one for one in worker.runs.values() if one.ahead and not one.running]


def give_back(worker: SimWorker, behind: str = "") -> None:
    """Nothing that has not begun will begin here; of one train, or of all."""
    back = [one for one in unbegun(worker) if not behind or behind in one.ahead]
    back = [one for one in back if not one.ending]
    for one in back:
        del worker.runs[one.attempt]
    if back:
        attempts = tuple(AttemptId(*one.attempt) for one in back)
        worker.say(wire.GivenBack(worker.epoch, attempts))


def forget_unbegun(worker: SimWorker) -> None:
    """A new greeting: what is not listed in it never starts."""
    for one in unbegun(worker):
        del worker.runs[one.attempt]


def returned(worker: SimWorker, results: list[Result]) -> wire.Returned:
    """Say together what would else be said one by one."""
    return wire.Returned(
        epoch=worker.epoch,
        job_ids=tuple(one.job_id for one in results),
        attempts=tuple(one.attempt for one in results),
        run_s=tuple(one.run_s for one in results),
        payloads=tuple(one.payload for one in results),
        peak_bytes=max(one.peak_bytes for one in results),
        utilisation=0.0,
        seen=True,
    )


def learn_tiny(disk: SimDisk) -> None:
    """Let the type of these calls be known, as if it had run often before."""
    profiles = Profiles()
    for _ in range(20):
        observed = Observed("succeeded", NEEDS["tiny"] * MIB, run_s=0.001, seen=True)
        cell_id = profiles.observe(("tiny", ()), "host", observed)
    disk.tables.cells[cell_id] = profiles.cell(cell_id)


def like_calls(client: SimClient) -> tuple[wire.Calls, list[JobSpec]]:
    """Calls of one function, as `map` submits them."""
    rng = client.rng
    like = a_spec(
        0,
        job_type="tiny",
        parent=client.parent,
        function=rng.choice(list(BLOBS)),
        detached=rng.random() < 0.35,
        retries=rng.choice([0, 0, 1]),
        timeout_s=rng.choice([None, None, None, 20.0]),
        payload=b"",
    )
    specs = [
        replace(like, job_id=client.world.new_id(), payload=rng.choice([b"", b"one", b"two"]))
        for _ in range(rng.choice([2, 4, 8]))
    ]
    job_ids = tuple(one.job_id for one in specs)
    return wire.Calls(like, job_ids, tuple(one.payload for one in specs)), specs
