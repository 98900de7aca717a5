"""Puts the jobs of one batch into the state file; somebody else begins and commits."""

import os
from collections.abc import Iterable
from typing import Any

from .changes import Batch, End, Life
from .examining import Meta, write_meta
from .loading import Numbers
from .parting import LetGo, let_go, write_ends, write_lives
from .rows import end_row, expiry_mark, job_row, life_row
from .schema import Connection
from .trainwriting import BrokenPromise, TrainWriter


class Writer:
    """One try to write one batch.

    What is in memory changes along with the transaction: if that fails, all of it is to be read
    from the disk again.
    """

    def __init__(self, connection: Connection, meta: Meta, numbers: Numbers) -> None:
        self._connection = connection
        self._meta = meta
        self._numbers = numbers

    def write(self, batch: Batch, to_wall_s: float) -> None:
        """Write all of it; `to_wall_s` makes of our clock the one on the wall."""
        new = {one.spec.job_id: one.number for one in batch.jobs}
        lives, ends = batch.lives, batch.ends
        gone = LetGo(batch.expired, batch.spent, batch.forgotten)
        members = self._numbers.members
        if members.numbers or batch.trains or batch.rides or batch.arrivals:
            trains = TrainWriter(self._connection, members, self._meta, to_wall_s)
            self._trains(batch, trains, new)
            ends = write_ends(batch, trains, members.numbers)
            lives = write_lives(batch, trains, members.numbers)
            gone = let_go(batch, trains, members.numbers)
            trains.finish()
        spent = {one.job_id for one in ends if not one.keeps_payload}
        self._jobs(batch, spent, to_wall_s)
        self._lives(lives, new, {one.job_id for one in ends})
        self._ends(ends, new, to_wall_s)
        self._letting_go(gone, ends, new)
        self._note(batch, ends, gone.forgotten)

    def _note(self, batch: Batch, ends: list[End], forgotten: Iterable[str]) -> None:
        self._meta.commits += 1
        write_meta(self._connection, tally=self._meta.tally)
        if batch.paused is not None:
            write_meta(self._connection, paused=int(batch.paused))
        if batch.queues is not None:
            write_meta(self._connection, queues=batch.queues)
        live, ended = self._numbers.live, self._numbers.ended
        for new in batch.jobs:
            live[new.spec.job_id] = new.number
        for end in ends:
            ended[end.job_id] = live.pop(end.job_id)
        for job_id in forgotten:
            ended.pop(job_id, None)

    def _many(self, sql: str, rows: list[Any]) -> None:
        if rows:
            self._connection.executemany(sql, rows)

    def _trains(self, batch: Batch, trains: TrainWriter, new: dict[str, int]) -> None:
        for train in batch.trains:
            for known in (self._numbers.live, self._numbers.ended, new):
                if not known.keys().isdisjoint(train.job_ids):
                    raise BrokenPromise(f"a job of train {train.number} is here already")
            trains.accept(train)

    def _jobs(self, batch: Batch, spent: set[str], to_wall_s: float) -> None:
        if not batch.jobs:
            return
        uid, boot = os.geteuid(), self._meta.boot
        numbers = self._numbers
        members = numbers.members
        for one in batch.jobs:
            job_id = one.spec.job_id
            if job_id in numbers.live or job_id in numbers.ended or job_id in members.numbers:
                raise BrokenPromise(f"{job_id} is here already")
            if members.trains and members.train_of(one.number):
                raise BrokenPromise(f"the number {one.number} is not free")
            # Not always in their order: a job that waits for its function comes later.
            self._meta.last_number = max(self._meta.last_number, one.number)
        self._meta.jobs += len(batch.jobs)
        self._many(
            "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [job_row(one, uid, to_wall_s, boot) for one in batch.jobs],
        )
        self._many(
            "INSERT INTO payloads VALUES (?, ?)",
            [
                (one.number, one.spec.payload)
                for one in batch.jobs
                if one.spec.payload and one.spec.job_id not in spent
            ],
        )

    def _lives(self, said: list[Life], new: dict[str, int], ended: set[str]) -> None:
        lives = {one.job_id: one for one in said if one.job_id not in ended}
        for job_id in new:
            if job_id not in lives and job_id not in ended:
                raise BrokenPromise(f"{job_id} is neither alive nor ended")
        live = self._numbers.live
        rows = []
        for job_id, life in lives.items():
            number = new.get(job_id) or live.get(job_id)
            if number is None:
                raise BrokenPromise(f"{job_id} has ended, or never was: it cannot live")
            rows.append(life_row(number, life))
        self._many("INSERT OR REPLACE INTO lives VALUES (?, ?, ?, ?, ?)", rows)

    def _ends(self, ends: list[End], new: dict[str, int], to_wall_s: float) -> None:
        """An outcome is recorded once: a live row must go for it, and its own is the first."""
        if not ends:
            return
        live = self._numbers.live
        rows, results, gone, spent = [], [], [], []
        for end in ends:
            number = new.get(end.job_id)
            if number is None:
                number = live.get(end.job_id)
                if number is None:
                    raise BrokenPromise(f"{end.job_id} has ended before, or never was")
                gone.append((number, end.attempt))
                if not end.keeps_payload:
                    spent.append(number)
            rows.append((*end_row(number, end, to_wall_s, self._meta.boot), 0))
            if end.outcome.payload:
                results.append((number, end.outcome.payload))
        before = self._changes()
        self._many("DELETE FROM lives WHERE number = ? AND attempt <= ?", gone)
        if self._changes() - before != len(gone):
            raise BrokenPromise("a job ended that was not alive in that attempt")
        self._many("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._many("INSERT INTO results VALUES (?, ?)", results)
        self._delete("payloads", spent)

    def _changes(self) -> int:
        (changes,) = self._connection.execute("SELECT total_changes()").fetchone()
        return int(changes)

    def _letting_go(self, gone: LetGo, ends: list[End], new: dict[str, int]) -> None:
        """Drop results past their time, and jobs past theirs; only what has ended can go."""
        if not any(gone):
            return
        live = self._numbers.live
        now = {one.job_id: new.get(one.job_id) or live[one.job_id] for one in ends}
        expired = self._ended(gone.expired, now)
        marks = [(expiry_mark(number), number) for number in expired]
        self._many("UPDATE outcomes SET expired = ? WHERE number = ?", marks)
        forgotten = self._ended(gone.forgotten, now)
        self._meta.jobs -= len(forgotten)
        self._delete("payloads", self._ended(gone.spent, now) | forgotten)
        self._delete("results", expired | forgotten)
        self._delete("outcomes", forgotten)
        self._delete("jobs", forgotten)

    def _ended(self, job_ids: Iterable[str], now: dict[str, int]) -> set[int]:
        found = set()
        for job_id in job_ids:
            number = now.get(job_id) or self._numbers.ended.get(job_id)
            if number is not None:
                found.add(number)
            elif job_id in self._numbers.live:
                raise BrokenPromise(f"{job_id} has not ended: it cannot be let go")
        return found

    def _delete(self, table: str, numbers: Iterable[int]) -> None:
        self._many(f"DELETE FROM {table} WHERE number = ?", [(one,) for one in numbers])
