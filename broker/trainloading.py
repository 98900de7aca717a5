"""Reads members of trains out of the state file, and believes nothing of them unchecked."""

from collections.abc import Callable, Iterator

from .changes import KeptJob, NewJob
from .members import ENDED, EXPIRED, FORGOTTEN, HEAVY_BYTES, SPENT, Members, Train
from .rows import BadRow, opened
from .schema import Connection
from .specs import payload_digest
from .trainrows import (
    ArrivalRow,
    RideRow,
    TrainRow,
    arrival_of,
    first_life,
    ride_of,
    train_of,
)

Here = Callable[[float, float, int], float]


class TrainReader:
    """Gives back the members of all trains, and notes what is to be known of them."""

    def __init__(self, connection: Connection, members: Members) -> None:
        """Read what was said of members; of the results only how long they are.

        Raises:
            BadRow: Something is not as it was written.
        """
        self._connection = connection
        self._members = members
        self._marks: dict[int, bytes] = dict(
            opened(row, "marks") for row in connection.execute("SELECT * FROM marks")
        )
        self._unused = set(self._marks)
        self._said: dict[int, tuple[RideRow | ArrivalRow, int]] = {}
        # How many rows there are besides those of the trains themselves.
        self.rows = len(self._marks)
        self._read_moves()

    def _read_moves(self) -> None:
        """The last ride counts, and an arrival more than any ride."""
        members = self._members
        for row in self._connection.execute("SELECT * FROM rides ORDER BY number"):
            ride = ride_of(row)
            members.last_ride = ride.number
            self._hear(ride)
        for row in self._connection.execute("SELECT * FROM arrivals ORDER BY number"):
            arrival = arrival_of(row)
            members.last_arrival = arrival.number
            if arrival.results.length >= HEAVY_BYTES:
                members.results[arrival.number] = 0
            self._hear(arrival.bare())

    def _hear(self, row: RideRow | ArrivalRow) -> None:
        self.rows += 1
        self._said.update((one, (row, at)) for at, one in enumerate(row.jobs))

    def trains(self) -> Iterator[TrainRow]:
        """Give all trains in the order of their numbers."""
        return map(train_of, self._connection.execute("SELECT * FROM trains ORDER BY number"))

    def jobs(self, row: TrainRow, queued_at: float, here: Here) -> Iterator[KeptJob]:
        """Give the members of a train that are not forgotten.

        Args:
            here: Makes of a time in any boot one of this.
        """
        count = len(row.job_ids)
        train = self._members.add(row.number, row.job_ids)
        flags = self._marks.get(row.number, bytes(count))
        train.marked = row.number in self._unused
        self._unused.discard(row.number)
        if len(flags) != count:
            raise BadRow(f"{len(flags)} marks for {count} jobs")
        train.flags[:] = flags
        for at, spec in enumerate(row.specs()):
            if flags[at] & FORGOTTEN:
                train.left -= 1
                del self._members.numbers[spec.job_id]
                continue
            digest = row.digest(at) or payload_digest(row.payloads[at], spec.token)
            new = NewJob(spec, row.number + at, row.session, queued_at, digest)
            yield self._kept(train, at, new, row.payloads.sizes[at], here)
        if row.payloads.length >= HEAVY_BYTES:
            train.inputs = sum(not one & SPENT for one in train.flags)

    def _kept(
        self, train: Train, at: int, new: NewJob, payload_bytes: int, here: Here
    ) -> KeptJob:
        said, index = self._said.pop(new.number, (None, 0))
        job_id = new.spec.job_id
        if isinstance(said, ArrivalRow):
            self._note_end(train, at, said)
            flags = train.flags[at]
            return KeptJob(
                new,
                end=said.end(index, job_id, here(*said.when)),
                expired=bool(flags & EXPIRED),
                payload_bytes=0 if flags & SPENT else payload_bytes,
                result_bytes=0 if flags & EXPIRED else said.results.sizes[index],
            )
        if train.flags[at]:
            raise BadRow(f"job {new.number} has ended, and has not")
        if said is None:
            return KeptJob(new, life=first_life(new.spec), payload_bytes=payload_bytes)
        life = said.life(index, job_id)
        train.moves[at], train.attempts[at] = said.number, life.attempt
        self._members.rides[said.number] += 1
        return KeptJob(new, life=life, payload_bytes=payload_bytes)

    def _note_end(self, train: Train, at: int, arrival: ArrivalRow) -> None:
        members, number = self._members, arrival.number
        train.moves[at] = number
        train.flags[at] |= ENDED if arrival.keeps_payload else ENDED | SPENT
        members.arrivals[number] += 1
        if number in members.results and not train.flags[at] & EXPIRED:
            members.results[number] += 1

    def compare(self, moves: int) -> None:
        """Compare how many rows there are with how many there should be."""
        if self.rows != moves or self._unused:
            raise BadRow(f"{self.rows} of {moves} rows say what became of members of trains")


class TrainTable:
    """Payloads and results of members; the row that was read last is at hand."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._train: TrainRow | None = None
        self._arrival: ArrivalRow | None = None

    def payload(self, members: Members, job_id: str) -> bytes:
        """Give the payload of a member.

        Raises:
            KeyError: There is none, or it was let go.
            BadRow: It is not what was written.
        """
        train, at = members.where(job_id)
        if train.flags[at] & SPENT:
            raise KeyError(job_id)
        if self._train is None or self._train.number != train.first:
            query = "SELECT * FROM trains WHERE number = ?"
            row = self._connection.execute(query, (train.first,)).fetchone()
            if row is None:
                raise BadRow(f"train {train.first} is missing")
            self._train = train_of(row)
        return self._train.payloads[at]

    def result(self, members: Members, job_id: str) -> bytes:
        """Give the result of a member, empty if it was let go.

        Raises:
            KeyError: There is no such member, or it has not ended.
            BadRow: It is not what was written.
        """
        train, at = members.where(job_id)
        if not train.flags[at]:
            raise KeyError(job_id)
        if train.flags[at] & EXPIRED:
            return b""
        number = train.moves[at]
        if self._arrival is None or self._arrival.number != number:
            query = "SELECT * FROM arrivals WHERE number = ?"
            row = self._connection.execute(query, (number,)).fetchone()
            if row is None:
                raise BadRow(f"arrival {number} is missing")
            self._arrival = arrival_of(row)
        return self._arrival.results[self._arrival.jobs.index(train.first + at)]
