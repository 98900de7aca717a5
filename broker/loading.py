"""Reads the jobs out of the state file, and believes nothing of them unchecked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .changes import KeptJob
from .examining import Meta
from .members import Members
from .rows import BadRow, Row, end_of, expiry_mark, job_of, life_of, opened
from .schema import Connection
from .trainloading import TrainReader

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
    """Under which numbers the jobs are kept, by their ids; members of trains apart."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.members = Members()


class _Line:
    """Whatever the clock on the wall did: who came first stays first."""

    def __init__(self, connection: Connection, times: Times) -> None:
        found = [
            connection.execute(
                f"SELECT min(queued_at) FROM {table} WHERE boot = ?", (times.boot,)
            )
            for table in ("jobs", "trains")
        ]
        known = [one for (one,) in (rows.fetchone() for rows in found) if one is not None]
        self._latest = min(known, default=times.now)
        self._last = -MOST_S + times.now
        self._times = times

    def queued_at(self, at: float, wall: float, boot: int) -> float:
        """Give when the next one came, in the order of their numbers."""
        here = self._times.here(at, wall, boot)
        if boot == self._times.boot:
            return here
        self._last = max(self._last, min(here, self._latest))
        return self._last


def jobs_kept(
    connection: Connection, times: Times, meta: Meta, numbers: Numbers
) -> Iterator[KeptJob]:
    """Give every job in the order of their numbers, and note these.

    Raises:
        BadRow: Something is not as it was written, or missing.
    """
    line = _Line(connection, times)
    reader = TrainReader(connection, numbers.members)
    trains = reader.trains()
    train = next(trains, None)
    for row in connection.execute(_JOBS):
        while train is not None and train.number < row[0]:
            yield from reader.jobs(train, line.queued_at(*train.when), times.here)
            train = next(trains, None)
        values = opened(row[_JOB], "jobs")
        job = _job_of(row, values, line.queued_at(*values[4:7]), times)
        into = numbers.ended if job.life is None else numbers.live
        into[job.new.spec.job_id] = job.new.number
        yield job
    while train is not None:
        yield from reader.jobs(train, line.queued_at(*train.when), times.here)
        train = next(trains, None)
    reader.compare(meta.moves)
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
    live, ended, members = len(numbers.live), len(numbers.ended), numbers.members.numbers
    here = live + ended + len(members)
    every = (numbers.live, numbers.ended, members)
    last = max(max(one.values(), default=0) for one in every)
    if here != meta.jobs or last > meta.last_number:
        raise BadRow(f"{here} of {meta.jobs} jobs are there")
    for table, count in (("lives", live), ("outcomes", ended)):
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if found != count:
            raise BadRow(f"{found} {table} for {count} jobs")


def numbers_kept(connection: Connection) -> Numbers:
    """Give the numbers alone, of jobs that came alone without a look at the rest."""
    numbers = Numbers()
    for table, into in (("lives", numbers.live), ("outcomes", numbers.ended)):
        query = f"SELECT j.job_id, j.number FROM {table} t JOIN jobs j ON j.number = t.number"
        into.update(connection.execute(query))
    reader = TrainReader(connection, numbers.members)
    for train in reader.trains():
        for _ in reader.jobs(train, 0.0, lambda at, _wall, _boot: at):
            pass
    return numbers
