"""Handing outcomes over: each is told until its client says that it has it.

So many are on their way to a client at once; a client that reads nothing costs no more than
those, however many of its jobs end.
"""

from collections.abc import Mapping
from typing import Final

from grn_zmq import wire

from .changes import Arrival
from .effects import Effect, Send
from .jobs import Job
from .peers import NOBODY, Session

# On their way to one client at most; a single larger one still goes.
MOST_IN_FLIGHT: Final = 16_384
MOST_BYTES_IN_FLIGHT: Final = 16 << 20


def give_up(job: Job, session: Session) -> list[Effect]:
    """The job is forgotten: whoever still waits to read how it ended is told so."""
    waits = job.job_id in session.unsent or job.job_id in session.in_flight
    take_receipt(session, job.job_id)
    return [_expired(job, session)] if waits and session.peer != NOBODY else []


def enqueue(job: Job, session: Session, jobs: Mapping[str, Job]) -> list[Effect]:
    """This client wants to know how the job ended: now, or after what it has to read first."""
    if job.job_id not in session.in_flight:
        session.unsent[job.job_id] = None
    return pump(session, jobs)


def hand_over(session: Session, arrival: Arrival, jobs: Mapping[str, Job]) -> list[Effect]:
    """Tell a client of jobs that ended together, now or after what it has to read first."""
    sizes = list(map(len, arrival.payloads))
    size = sum(sizes)
    fits = (
        len(session.in_flight) + len(sizes) <= MOST_IN_FLIGHT
        and session.in_flight_bytes + size <= MOST_BYTES_IN_FLIGHT
    )
    here = session.peer != NOBODY and session.protocol == wire.PROTOCOL
    if session.unsent or not (fits and here):
        session.unsent.update(dict.fromkeys(arrival.job_ids))
        return pump(session, jobs)
    session.in_flight.update(zip(arrival.job_ids, sizes, strict=True))
    session.in_flight_bytes += size
    columns = (arrival.job_ids, arrival.wait_s, arrival.run_s, arrival.payloads)
    return [Send(session.peer, wire.Values(arrival.like, *columns))]


def begin_again(session: Session) -> None:
    """Whatever was on its way on a connection that is gone is to be sent once more."""
    session.unsent = dict.fromkeys((*session.in_flight, *session.unsent))
    session.in_flight.clear()
    session.in_flight_bytes = 0


def take_receipt(session: Session, job_id: str) -> None:
    session.in_flight_bytes -= session.in_flight.pop(job_id, 0)
    session.unsent.pop(job_id, None)


def pump(session: Session, jobs: Mapping[str, Job]) -> list[Effect]:
    """Send what fits into the window."""
    effects: list[Effect] = []
    if session.peer == NOBODY:
        return effects
    while session.unsent:
        job = jobs[next(iter(session.unsent))]
        full = session.in_flight_bytes + job.result_bytes > MOST_BYTES_IN_FLIGHT
        if session.in_flight and (full or len(session.in_flight) >= MOST_IN_FLIGHT):
            break
        del session.unsent[job.job_id]
        if job.expired:
            effects.append(_expired(job, session))
            continue
        session.in_flight[job.job_id] = job.result_bytes
        session.in_flight_bytes += job.result_bytes
        effects.append(_ended(job, session))
    return effects


def expired(job_id: str, outcome: str) -> wire.Refused:
    """Say that how a job ended is known, but its value was let go."""
    text = (
        f"job {job_id} {outcome} long ago, and its result was let go: those of spawned jobs "
        f"are kept for a week, others a minute once fetched, large ones until then"
    )
    return wire.Refused("result-expired", text, (job_id,))


def damaged(job_id: str, outcome: str) -> wire.Refused:
    """Say that how a job ended is known, but its value is no longer what was written."""
    text = (
        f"job {job_id} {outcome}, but its result cannot be read any more: the disk changed it"
    )
    return wire.Refused("result-expired", text, (job_id,))


def _expired(job: Job, session: Session) -> Send:
    return Send(session.peer, expired(job.job_id, job.state.value))


def _ended(job: Job, session: Session) -> Send:
    outcome = job.outcome
    assert outcome is not None
    stored = bool(job.result_bytes) and not outcome.payload
    message = wire.Ended((outcome,))
    return Send(session.peer, message, (job.job_id,) if stored else (), session.protocol)
