"""Reads the jobs out of the state file, and believes nothing of them unchecked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .changes import KeptJob
from .examining import Meta
from .rows import BadRow, Row, end_of, expiry_mark, job_of, life_of, opened
from .schema import Connection

# What happened before the last boot happened at most so long ago: a clock on the wall that
# was wrong by years must not make figures that nobody can compute with.
MOST_S: Final = 366 * 24 * 3600.0

_JOBS: Final = """
    SELECT j.*, l.number, l.attempt, l.state, l.facts, l.crc,
           o.*, length(p.data), length(r.data)
    FROM jobs j LEFT JOIN lives l ON l.number = j.number
        LEFT JOIN outcomes o ON o.number = j.number
        LEFT JOIN payloads p ON p.number = j.number
        LEFT JOIN results r ON r.number = j.number
    ORDER BY j.number
"""
_JOB: Final = slice(0, 13)
_LIFE: Final = slice(13, 18)
_END: Final = slice(18, 28)
_EXPIRED: Final = 28


@dataclass(frozen=True, slots=True)
class Times:
    """Makes of times noted in any boot those of the monotonic clock of this one."""

    now: float
    wall: float
    boot: int

    def here(self, at: float, wall: float, boot: int) -> float:
        """Give when it was; what another boot noted is told by the clock on the wall."""
        if boot == self.boot:
            return at
        return self.now - min(max(0.0, self.wall - wall), MOST_S)


class Numbers:
    """Under which numbers the jobs are kept, by their ids."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.ended: dict[str, int] = {}


def jobs_kept(
    connection: Connection, times: Times, meta: Meta, numbers: Numbers
) -> Iterator[KeptJob]:
    """Give every job in the order of their numbers, and note these.

    Raises:
        BadRow: Something is not as it was written, or missing.
    """
    query = "SELECT min(queued_at) FROM jobs WHERE boot = ?"
    (latest,) = connection.execute(query, (times.boot,)).fetchone()
    latest = times.now if latest is None else latest
    last = -MOST_S + times.now
    for row in connection.execute(_JOBS):
        values = opened(row[_JOB], "jobs")
        queued_at = times.here(*values[4:7])
        if values[6] != times.boot:
            # Whatever the clock on the wall did: who came first stays first.
            last = queued_at = max(last, min(queued_at, latest))
        job = _job_of(row, values, queued_at, times)
        into = numbers.ended if job.life is None else numbers.live
        into[job.new.spec.job_id] = job.new.number
        yield job
    _compare(connection, meta, numbers)


def _job_of(row: Row, values: Row, queued_at: float, times: Times) -> KeptJob:
    new = job_of(values, queued_at)
    job_id = new.spec.job_id
    life_row, end_row, expired = row[_LIFE], row[_END], row[_EXPIRED]
    payload_bytes, result_bytes = row[-2:]
    if end_row[0] is None:
        life = life_of(opened(life_row, "lives"), job_id)
        if (payload_bytes or 0) != values[8]:
            raise BadRow(f"the payload of job {new.number} is missing")
        return KeptJob(new, life=life, payload_bytes=payload_bytes or 0)
    if life_row[0] is not None or expired not in (0, expiry_mark(new.number)):
        raise BadRow(f"job {new.number} has ended, and has not")
    end = opened(end_row, "outcomes")
    if (result_bytes or 0) != (0 if expired else end[6]):
        raise BadRow(f"the result of job {new.number} is missing")
    if (payload_bytes or 0) not in (0, values[8]):
        raise BadRow(f"the payload of job {new.number} is not whole")
    return KeptJob(
        new,
        end=end_of(end, job_id, times.here(*end[3:6])),
        expired=expired != 0,
        payload_bytes=payload_bytes or 0,
        result_bytes=result_bytes or 0,
    )


def _compare(connection: Connection, meta: Meta, numbers: Numbers) -> None:
    """Compare how many rows there are with how many there should be."""
    live, ended = len(numbers.live), len(numbers.ended)
    last = max(max(one.values(), default=0) for one in (numbers.live, numbers.ended))
    if live + ended != meta.jobs or last > meta.last_number:
        raise BadRow(f"{live + ended} of {meta.jobs} jobs are there")
    for table, count in (("lives", live), ("outcomes", ended)):
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if found != count:
            raise BadRow(f"{found} {table} for {count} jobs")


def numbers_kept(connection: Connection) -> Numbers:
    """Give the numbers alone, without a look at the rest."""
    numbers = Numbers()
    for table, into in (("lives", numbers.live), ("outcomes", numbers.ended)):
        query = f"SELECT j.job_id, j.number FROM {table} t JOIN jobs j ON j.number = t.number"
        into.update(connection.execute(query))
    return numbers
