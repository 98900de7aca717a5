"""Parts a batch: members of trains are written together, other jobs one by one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from .changes import Arrival, Batch, End, Life, Ride
from .together import arrivals_of, ends_in, lives_in, picked_arrival, picked_ride
from .trainwriting import TrainWriter

T = TypeVar("T", End, Life)


class LetGo(NamedTuple):
    """Ids of jobs of which something is let go."""

    expired: Sequence[str] = ()
    spent: Sequence[str] = ()
    forgotten: Sequence[str] = ()


def write_ends(batch: Batch, trains: TrainWriter, numbers: Mapping[str, int]) -> list[End]:
    """Write how members ended; give how others did."""
    own, alone = _parted(batch.ends, numbers)
    for arrival in [*batch.arrivals, *arrivals_of(alone)]:
        found, others = _found(arrival.job_ids, numbers)
        mine = arrival
        if others:
            own += ends_in(picked_arrival(arrival, others))
            mine = picked_arrival(arrival, _rest(arrival, others))
        if found:
            trains.end(mine, found)
    return own


def write_lives(batch: Batch, trains: TrainWriter, numbers: Mapping[str, int]) -> list[Life]:
    """Write how members live on, once it is written which ended; give how others do.

    Of what is said of a job in one batch, that of the latest attempt counts; of the same
    attempt, what is said of it alone.
    """
    own, alone = _parted(batch.lives, numbers)
    placed: dict[str, Life] = {}
    for ride in batch.rides:
        found, others = _found(ride.job_ids, numbers)
        mine = ride
        if others:
            placed |= {one.job_id: one for one in lives_in(picked_ride(ride, others))}
            mine = picked_ride(ride, _rest(ride, others))
        if found:
            trains.place(mine, found)
    trains.place_each({one.job_id: one for one in alone}.values())
    for one in own if placed else ():
        if one.job_id in placed and placed[one.job_id].attempt <= one.attempt:
            del placed[one.job_id]
    return [*(one for one in own if one.job_id not in placed), *placed.values()]


def let_go(batch: Batch, trains: TrainWriter, numbers: Mapping[str, int]) -> LetGo:
    """Let go of what members no longer need; give what is said of others."""
    if not (batch.expired or batch.spent or batch.forgotten):
        return LetGo()
    others = LetGo(
        [one for one in batch.expired if one not in numbers],
        [one for one in batch.spent if one not in numbers],
        [one for one in batch.forgotten if one not in numbers],
    )
    trains.expire(filter(numbers.__contains__, batch.expired))
    trains.spend(filter(numbers.__contains__, batch.spent))
    trains.forget(batch.forgotten)
    return others


def _parted(said: Sequence[T], numbers: Mapping[str, int]) -> tuple[list[T], list[T]]:
    """Give what is said of others, and of members."""
    if not numbers:
        return list(said), []
    return (
        [one for one in said if one.job_id not in numbers],
        [one for one in said if one.job_id in numbers],
    )


def _found(job_ids: Sequence[str], numbers: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Give the numbers of those that are members, and the places of those that are not."""
    found = list(map(numbers.get, job_ids))
    others = [at for at, one in enumerate(found) if one is None] if None in found else []
    return [one for one in found if one is not None], others


def _rest(said: Ride | Arrival, without: Sequence[int]) -> list[int]:
    left_out = set(without)
    return [at for at in range(len(said.job_ids)) if at not in left_out]
