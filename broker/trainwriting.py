"""Puts what a batch says of members of trains into the state file: a row for many at once.

Of a member there is never a row of its own, also where it is spoken of alone. Rows are only
added: the last ride says how it lives, its arrival how it ended, which is the last of all. A
row goes once no member stands in it any longer, that of a train once all of it is forgotten.
What is let go of single members is marked in a row beside that of their train.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import le
from typing import Final

from .changes import Arrival, Life, NewTrain, Ride
from .examining import Meta
from .members import ENDED, EXPIRED, FORGOTTEN, HEAVY_BYTES, SPENT, Members, Piece, Train
from .rows import Row, sealed
from .schema import Connection
from .specs import payload_digest
from .together import picked_arrival, picked_ride, rides_of
from .trainrows import arrival_of, arrival_row, portions, ride_row, train_of, train_row

_COLUMNS: Final = {"trains": 13, "rides": 6, "arrivals": 14, "marks": 3}
_INSERT: Final = {
    table: f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"
    for table, columns in _COLUMNS.items()
}
_REPLACE: Final = {table: f"INSERT OR REPLACE {sql[7:]}" for table, sql in _INSERT.items()}
_DELETE: Final = {table: f"DELETE FROM {table} WHERE number = ?" for table in _COLUMNS}
_SELECT: Final = {table: f"SELECT * FROM {table} WHERE number = ?" for table in _COLUMNS}
_ADDING: Final = {
    flag: bytes(one | flag for one in range(256))
    for flag in (EXPIRED, SPENT, EXPIRED | SPENT | FORGOTTEN)
}


class BrokenPromise(Exception):
    """A batch would change what can no longer change; the text says which job."""


class TrainWriter:
    """Writes of one batch what members are concerned with.

    What is in memory is changed along with the transaction: if that fails, both are to be read
    from the disk again.
    """

    def __init__(
        self, connection: Connection, members: Members, tally: Meta, to_wall_s: float
    ) -> None:
        self._connection = connection
        self._members = members
        self._tally = tally
        self._to_wall_s = to_wall_s
        self._rides_before = members.last_ride
        self._arrivals_before = members.last_arrival
        self._marked: dict[int, Train] = {}
        self._over: dict[str, list[int]] = {"rides": [], "arrivals": []}

    def accept(self, new: NewTrain) -> None:
        """Keep a train that is here for the first time, as far as members know."""
        members, tally = self._members, self._tally
        known = len(members.numbers)
        end = new.number + len(new.job_ids)
        if members.overlaps(new.number, end) or self._is_numbered(new.number, end):
            raise BrokenPromise(f"the numbers {new.number} to {end - 1} are not free")
        for portion in portions(new.payloads) if new.job_ids else ():
            row = train_row(new, portion, os.geteuid(), self._to_wall_s, tally.boot)
            self._insert("trains", row)
            train = members.add(row[0], new.job_ids[portion])
            if len(row[-2]) >= HEAVY_BYTES:
                train.inputs = train.left
        if len(members.numbers) - known != len(new.job_ids):
            raise BrokenPromise(f"a job of train {new.number} is here already")
        tally.last_number = max(tally.last_number, end - 1)
        tally.jobs += len(new.job_ids)

    def _is_numbered(self, first: int, end: int) -> bool:
        """Whether a job that came alone has one of these numbers."""
        if first > self._tally.last_number:
            return False
        query = "SELECT 1 FROM jobs WHERE number >= ? AND number < ? LIMIT 1"
        return self._connection.execute(query, (first, end)).fetchone() is not None

    def end(self, arrival: Arrival, numbers: Sequence[int]) -> None:
        """Members of these numbers have ended: for the first time, and for good."""
        for portion in (parts := portions(arrival.payloads)):
            one = arrival
            if len(parts) > 1:
                one = picked_arrival(arrival, range(portion.start, portion.stop))
            self._end(one, numbers[portion])

    def _end(self, arrival: Arrival, numbers: Sequence[int]) -> None:
        members = self._members
        members.last_arrival += 1
        move, boot = members.last_arrival, self._tally.boot
        row = arrival_row(move, arrival, numbers, self._to_wall_s, boot)
        self._insert("arrivals", row)
        self._tally.moves += 1
        members.arrivals[move] = len(numbers)
        if len(row[-2]) >= HEAVY_BYTES:
            members.results[move] = len(numbers)
        flag = ENDED if arrival.keep_payload else ENDED | SPENT
        for piece in members.pieces(numbers):
            train, at, of = piece
            count = of.stop - of.start
            if piece.flags.count(0) != count:
                raise BrokenPromise(f"one of jobs {numbers[of]} has ended before")
            if not all(map(le, train.attempts[at], arrival.attempts[of])):
                raise BrokenPromise("a job ended that was not alive in that attempt")
            self._over["rides"] += members.leave(members.rides, train.moves[at])
            train.moves[at] = array("q", (move,)) * count
            train.flags[at] = bytes((flag,)) * count
            if train.inputs is not None and flag & SPENT:
                train.inputs -= count
                self._marked[train.first] = train

    def place(self, ride: Ride, numbers: Sequence[int]) -> None:
        """Members of these numbers live on like this; not those that ended in this batch."""
        members = self._members
        if any(piece.flags.count(0) != len(piece.flags) for piece in members.pieces(numbers)):
            alive = [at for at, number in enumerate(numbers) if self._lives(number)]
            ride, numbers = picked_ride(ride, alive), [numbers[at] for at in alive]
        if not numbers:
            return
        members.last_ride += 1
        move = members.last_ride
        self._insert("rides", ride_row(move, ride, numbers))
        self._tally.moves += 1
        members.rides[move] = len(numbers)
        for train, at, of in members.pieces(numbers):
            self._over["rides"] += members.leave(members.rides, train.moves[at])
            train.moves[at] = array("q", (move,)) * (of.stop - of.start)
            train.attempts[at] = array("q", ride.attempts[of])

    def _lives(self, number: int) -> bool:
        train = self._members.train_of(number)
        assert train is not None
        at = number - train.first
        if train.flags[at] and train.moves[at] <= self._arrivals_before:
            raise BrokenPromise(f"job {number} has ended: it cannot live")
        return not train.flags[at]

    def place_each(self, lives: Iterable[Life]) -> None:
        """Members live on like this; the ride of a later attempt in the same batch counts."""
        for ride in rides_of(one for one in lives if not self._is_outdone(one)):
            self.place(ride, [self._members.numbers[one] for one in ride.job_ids])

    def _is_outdone(self, life: Life) -> bool:
        train, at = self._members.where(life.job_id)
        is_placed = not train.flags[at] and train.moves[at] > self._rides_before
        return is_placed and train.attempts[at] > life.attempt

    def expire(self, job_ids: Iterable[str]) -> None:
        """The results of these members are given out no longer."""
        self._mark([self._members.numbers[one] for one in job_ids], EXPIRED)

    def spend(self, job_ids: Iterable[str]) -> None:
        """The payloads of these ended members are given out no longer."""
        self._mark([self._members.numbers[one] for one in job_ids], SPENT)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Nothing of these members is given out any longer."""
        members = self._members
        found = map(members.numbers.pop, job_ids, repeat(None))
        numbers = [one for one in found if one is not None]  # one may be named twice
        for piece in self._mark(numbers, EXPIRED | SPENT | FORGOTTEN):
            moves = piece.train.moves[piece.at]
            self._over["arrivals"] += members.leave(members.arrivals, moves)
            piece.train.left -= len(moves)
        self._tally.jobs -= len(numbers)

    def _mark(self, numbers: Sequence[int], flag: int) -> list[Piece]:
        pieces = list(self._members.pieces(numbers))
        for piece in pieces:
            flags = piece.flags
            if 0 in flags:
                number = numbers[piece.of][flags.index(0)]
                raise BrokenPromise(f"job {number} has not ended: it cannot be let go")
            if self._members.results or piece.train.inputs is not None:
                self._lighten(piece, flags, flag)
            piece.train.flags[piece.at] = flags.translate(_ADDING[flag])
            self._marked[piece.train.first] = piece.train
        return pieces

    def _lighten(self, piece: Piece, flags: bytearray, flag: int) -> None:
        """Count what of heavy rows is still to be given out."""
        results, train = self._members.results, piece.train
        for before, move in zip(flags, train.moves[piece.at], strict=True):
            if flag & ~before & EXPIRED and move in results:
                results[move] -= 1
            if flag & ~before & SPENT and train.inputs is not None:
                train.inputs -= 1

    def finish(self) -> None:
        """Write what was marked, and remove or shorten what is needed no longer."""
        results = self._members.results
        for table, over in self._over.items():
            for number in over:
                self._delete(table, number)
            self._tally.moves -= len(over)
        for number in self._over["arrivals"]:
            results.pop(number, None)
        for train in self._marked.values():
            self._finish(train)
        for number in [one for one, left in results.items() if not left]:
            del results[number]
            self._shorten("arrivals", number, lambda row: arrival_of(row).without_results())

    def _finish(self, train: Train) -> None:
        number = train.first
        if not train.left:
            self._delete("trains", number)
            self._delete("marks", number)
            self._tally.moves -= train.marked
            self._members.remove(train)
            return
        self._connection.execute(_REPLACE["marks"], sealed(number, bytes(train.flags)))
        self._tally.moves += not train.marked
        train.marked = True
        if train.inputs == 0:
            train.inputs = None
            self._shorten("trains", number, _with_digests)

    def _insert(self, table: str, row: Row) -> None:
        self._connection.execute(_INSERT[table], row)

    def _delete(self, table: str, number: int) -> None:
        self._connection.execute(_DELETE[table], (number,))

    def _shorten(self, table: str, number: int, shortened: Callable[[Row], Row]) -> None:
        row = self._connection.execute(_SELECT[table], (number,)).fetchone()
        self._connection.execute(_REPLACE[table], shortened(row))


def _with_digests(row: Row) -> Row:
    """Give the row of a train without its payloads, but with what tells each from any other."""
    train = train_of(row)
    tokens = (one.token for one in train.specs())
    digests = [payload_digest(train.payloads[at], one) for at, one in enumerate(tokens)]
    return train.without_payloads(b"".join(digests))
