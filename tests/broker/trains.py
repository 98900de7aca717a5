"""What tests of trains in the journal share: trains to keep, and the same said one by one."""

from collections.abc import Sequence
from dataclasses import replace

from broker.changes import Arrival, Batch, KeptJob, Life, NewJob, NewTrain, Ride
from broker.journal import Journal
from broker.members import FORGOTTEN
from broker.specs import digest_of
from broker.together import ends_in, lives_in
from tests.broker.stored import SESSION, a_life, a_spec, an_end, job_id


def a_train(
    first: int, count: int, *, queued_at: float = 100.0, payload: bytes = b"", **given: object
) -> NewTrain:
    """A train with the jobs of these numbers, each with a payload of its own."""
    numbers = range(first, first + count)
    spec = a_spec(first, **{"held": False, "token": "", **given})
    payloads = tuple(b"%d %s" % (one, payload) for one in numbers)
    return NewTrain(
        spec, first, SESSION, queued_at, tuple(job_id(one) for one in numbers), payloads
    )


def a_ride(*numbers: int, attempt: int = 1, **given: object) -> Ride:
    like = Life("", 0, "assigned", "w" * 32, "i" * 32, "b" * 36, "cuda:0", 1 << 30)
    like = replace(like, **given)  # type: ignore[arg-type]
    return Ride(like, tuple(map(job_id, numbers)), (attempt,) * len(numbers))


def an_arrival(
    *numbers: int, attempt: int = 1, payload: bytes = b"", keep: bool = False, **given: object
) -> Arrival:
    given = {"outcome": "succeeded", **given}
    return Arrival(
        an_end(1, **given).outcome,  # type: ignore[arg-type]
        200.0,
        tuple(map(job_id, numbers)),
        (attempt,) * len(numbers),
        tuple(one + 0.5 for one in numbers),
        tuple(one + 0.25 for one in numbers),
        tuple(b"result %d %s" % (one, payload) for one in numbers),
        keep,
    )


def a_bit_of_trains() -> list[Batch]:
    """Turns after which every table of trains holds something: jobs 21 to 40."""
    return [
        Batch(trains=[a_train(21, 12), a_train(33, 8, payload=b"long" * 3000)]),
        Batch(rides=[a_ride(*range(21, 30))], durable=True),
        Batch(arrivals=[an_arrival(*range(21, 25)), an_arrival(33, 34, attempt=0, keep=True)]),
        Batch(lives=[a_life(26, attempt=1, held=True)], ends=[an_end(25)]),
        Batch(expired=[job_id(21)], forgotten=[job_id(22)], spent=[job_id(33)]),
        Batch(rides=[a_ride(35, 36), a_ride(26, 27, attempt=2)]),
    ]


def one_by_one(batch: Batch) -> Batch:
    """The same batch without trains, rides and arrivals."""
    jobs, lives = list(batch.jobs), []
    for train in batch.trains:
        for at, one in enumerate(train.job_ids):
            spec = replace(train.spec, job_id=one, payload=train.payloads[at])
            jobs.append(
                NewJob(spec, train.number + at, train.session, train.queued_at, digest_of(spec))
            )
            lives.append(Life(one, 0, "queued", priority=spec.priority))
    placed = {one.job_id: one for ride in batch.rides for one in lives_in(ride)}
    alone = {one.job_id: one for one in batch.lives}
    for one in placed.keys() & alone.keys():
        if placed[one].attempt > alone[one].attempt:
            del alone[one]
    lives += [*placed.values(), *alone.values()]
    ends = [*batch.ends, *(one for arrival in batch.arrivals for one in ends_in(arrival))]
    return replace(batch, jobs=jobs, lives=lives, ends=ends, trains=[], rides=[], arrivals=[])


def all_of(journal: Journal) -> list[tuple[KeptJob, bytes | None, bytes | None]]:
    """Every job with its payload and its result, None if it gives none."""
    found = []
    for job in list(journal.load().jobs):
        name = job.new.spec.job_id
        found.append((job, _or_none(journal.payload, name), _or_none(journal.result, name)))
    return found


def _or_none(asked: object, name: str) -> bytes | None:
    try:
        return asked(name)  # type: ignore[operator, no-any-return]
    except KeyError:
        return None


def known_to(journal: Journal) -> tuple[object, ...]:
    """What a journal has in memory of members of trains."""
    members = journal._known().members
    trains = []
    for _, one in sorted(members.trains.items()):
        here = [at for at, flags in enumerate(one.flags) if flags < FORGOTTEN]
        moves = [one.moves[at] for at in here]
        attempts = [one.attempts[at] for at in here if not one.flags[at]]
        facts = (one.first, one.left, one.marked, one.inputs)
        trains.append((facts, bytes(one.flags), moves, attempts))
    return members.numbers, trains, members.rides, members.arrivals, members.results


def rows_in(journal: Journal) -> dict[str, int]:
    """How many rows there are of each kind."""
    tables: Sequence[str] = (
        "jobs", "payloads", "lives", "outcomes", "results",
        "trains", "rides", "arrivals", "marks",
    )  # fmt: skip
    counts = {}
    for table in tables:
        (count,) = journal._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if count:
            counts[table] = count
    return counts
