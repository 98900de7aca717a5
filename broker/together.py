"""What is said of jobs one by one, said together where it is alike, and the other way round."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .changes import Arrival, End, Life, Ride
from .rows import LIFE_FORM
from .trainrows import ARRIVAL_FORM


def rides_of(lives: Iterable[Life]) -> list[Ride]:
    """Lives that differ in id and attempt alone become one."""
    alike: dict[tuple[str, bytes], list[Life]] = {}
    for one in lives:
        alike.setdefault((one.state, LIFE_FORM.pack(one)), []).append(one)
    return [_ride(group) for group in alike.values()]


def _ride(lives: Sequence[Life]) -> Ride:
    ids, attempts = (one.job_id for one in lives), (one.attempt for one in lives)
    return Ride(lives[0], tuple(ids), tuple(attempts))


def arrivals_of(ends: Iterable[End]) -> list[Arrival]:
    """Ends that differ only in what has a column become one."""
    alike: dict[tuple[object, ...], list[End]] = {}
    for one in ends:
        said = one.outcome
        key = (said.outcome, one.ended_at, one.keeps_payload, ARRIVAL_FORM.pack(said))
        alike.setdefault(key, []).append(one)
    return [_arrival(group) for group in alike.values()]


def _arrival(ends: Sequence[End]) -> Arrival:
    first = ends[0]
    return Arrival(
        first.outcome,
        first.ended_at,
        tuple(one.job_id for one in ends),
        tuple(one.attempt for one in ends),
        tuple(one.outcome.wait_s for one in ends),
        tuple(one.outcome.run_s for one in ends),
        tuple(one.outcome.payload for one in ends),
        first.keeps_payload,
    )


def picked_ride(ride: Ride, indices: Sequence[int]) -> Ride:
    """Only these of them."""
    ids, attempts = ride.job_ids, ride.attempts
    return Ride(ride.like, tuple(ids[i] for i in indices), tuple(attempts[i] for i in indices))


def picked_arrival(arrival: Arrival, indices: Sequence[int]) -> Arrival:
    """Only these of them."""
    return replace(
        arrival,
        job_ids=tuple(arrival.job_ids[i] for i in indices),
        attempts=tuple(arrival.attempts[i] for i in indices),
        wait_s=tuple(arrival.wait_s[i] for i in indices),
        run_s=tuple(arrival.run_s[i] for i in indices),
        payloads=tuple(arrival.payloads[i] for i in indices),
    )


def lives_in(ride: Ride) -> Iterator[Life]:
    """The same, one by one."""
    for job_id, attempt in zip(ride.job_ids, ride.attempts, strict=True):
        yield replace(ride.like, job_id=job_id, attempt=attempt)


def ends_in(arrival: Arrival) -> Iterator[End]:
    """The same, one by one."""
    columns = (arrival.attempts, arrival.wait_s, arrival.run_s, arrival.payloads)
    for job_id, attempt, wait_s, run_s, payload in zip(arrival.job_ids, *columns, strict=True):
        outcome = replace(
            arrival.like, job_id=job_id, wait_s=wait_s, run_s=run_s, payload=payload
        )
        yield End(job_id, attempt, outcome, arrival.ended_at, arrival.keep_payload)
