"""What must be true of everything the broker says and grants, judged from outside.

It outlives brokers: what one of them told the world holds for all that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.effects import Effect, Note, Peer, Send
from grn_zmq import wire
from grn_zmq.records import Numbered, Outcome, Piece, Run
from tests.simulation.declared import judge_start
from tests.simulation.grants import judge_grants
from tests.simulation.riding import each_of

if TYPE_CHECKING:
    from broker.book import Book
    from tests.simulation.world import World


def of_result(run: Run) -> bytes:
    """The value a simulated body returns: it tells which attempt made it."""
    return f"{run.job_id} {run.attempt} {'stand-in' if run.stand_in else 'real'}".encode()


class Oracle:
    """Keeps its own record of the story and compares each event with it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: set[str] = set()
        self.outcomes: dict[str, tuple[str, bytes]] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        self.bodies: Counter[str] = Counter()
        self.ooms: Counter[str] = Counter()
        self.alive: dict[str, int] = {}
        self.runs: dict[str, Run] = {}
        # Jobs whose cancelling was told, and the last attempt that could have begun then.
        self.cancelled: dict[str, int] = {}
        self.alarms_allowed = False
        # What somebody ordered to forget.
        self._forgettable: set[str] = set()

    @property
    def _book(self) -> Book:
        return self._world.core.book

    def is_accepted(self, job_id: str) -> bool:
        return job_id in self.accepted

    def started(self, run: Run) -> None:
        """A worker began an attempt: the user's code runs now."""
        job_id, spec = run.job_id, self._world.specs[run.job_id]
        self.starts[job_id, run.attempt] += 1
        assert self.starts[job_id, run.attempt] == 1, f"{job_id} started twice"
        assert job_id not in self.alive, f"{job_id} runs beside its attempt {self.alive}"
        judge_start(self._world, run, self.runs)
        self.alive[job_id] = run.attempt
        self.runs[job_id] = run
        self.bodies[job_id] += 1
        again = min(self.ooms[job_id], spec.oom_retries) + spec.retries + spec.has_stand_in
        assert self.bodies[job_id] <= 1 + again, f"{job_id} ran {self.bodies[job_id]} times"
        last = self.cancelled.get(job_id, run.attempt)
        assert run.attempt <= last, f"{job_id} began after it was cancelled"

    def finished(self, run: Run, outcome: str) -> None:
        self.ooms[run.job_id] += outcome == "oom"

    def gone(self, run: Run) -> None:
        """No process of this attempt is left."""
        if self.alive.get(run.job_id) == run.attempt:
            del self.alive[run.job_id]
            del self.runs[run.job_id]

    def may_be_forgotten(self, job_ids: Iterable[str]) -> None:
        """Somebody has ordered to clean these."""
        self._forgettable.update(job_ids)

    def alarm(self, job_ids: set[str]) -> None:
        fine = self.alarms_allowed or job_ids <= self._forgettable
        assert fine, "a worker has an attempt that nobody gave it"

    def cancel_acknowledged(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            job = self._world.disk.tables.jobs.get(job_id)
            if job is None:
                continue
            life = self._world.disk.tables.lives.get(job_id)
            end = self._world.disk.tables.ends.get(job_id)
            attempt = life.attempt if life else end.attempt if end else 0
            self.cancelled.setdefault(job_id, attempt)

    def look(self, effects: list[Effect]) -> None:
        """Judge what the broker decided in one event; nobody has been told yet."""
        story: list[tuple[str, object]] = []
        for effect in effects:
            match effect:
                case Note("ended" | "placed" as what, facts):
                    story.append((what, facts["number"]))
                case Send(peer, wire.Output(pieces)):
                    for piece in pieces:
                        self._judge_output(piece, peer)
        if any(what == "placed" for what, _ in story):
            judge_grants(self._book, story)

    def told(self, message: wire.Message) -> None:
        """Something leaves the broker: from now on it is a promise."""
        match message:
            case wire.Accepted(jobs):
                for one in jobs:
                    kept = self._world.disk.tables.jobs
                    assert one.job_id in kept, f"{one.job_id} was accepted and is not kept"
                    assert kept[one.job_id].number == one.number, "its number changed"
                    self.accepted.add(one.job_id)
            case wire.Taken(first, job_ids):
                numbered = enumerate(job_ids, first)
                self.told(wire.Accepted(tuple(Numbered(one, at) for at, one in numbered)))
            case wire.Ended(outcomes):
                for outcome in outcomes:
                    self._judge(outcome)
            case wire.Values(like, job_ids, _, _, payloads):
                for job_id, payload in zip(job_ids, payloads, strict=True):
                    self._judge(replace(like, job_id=job_id, payload=payload))
            case wire.Refused("unknown-job", _, job_ids):
                lost = self.accepted.intersection(job_ids) - self._forgettable
                assert not lost, f"accepted, and not known any more: {lost}"
            case wire.Assign(_, runs):
                for run in [one for train in runs for one in each_of(train)]:
                    life = self._world.disk.tables.lives.get(run.job_id)
                    known = life is None or life.attempt >= run.attempt
                    assert known, f"{run.job_id} was assigned and that is not kept"

    def _judge(self, outcome: Outcome) -> None:
        job_id, told = outcome.job_id, (outcome.outcome, outcome.payload)
        kept = self._world.disk.tables.ends
        assert job_id in kept, f"{job_id} is said to have ended, and that is not kept"
        said = self.outcomes.setdefault(job_id, told)
        assert said == told, f"{job_id} was {said}, is {told}"
        if outcome.outcome == "succeeded":
            of_job, attempt, body = outcome.payload.decode().split()
            assert body == "real", f"{job_id} returned the value of its stand-in"
            assert of_job == job_id, "a value of another job"
            assert int(attempt) == kept[job_id].attempt, "an older attempt's value"

    def _judge_output(self, piece: Piece, peer: Peer) -> None:
        job = self._book.jobs[piece.job_id]
        sessions = self._book.sessions
        watchers = [sessions[name] for name in job.watchers if name in sessions]
        told = [one for one in watchers if one.peer == peer]
        assert told, f"{piece} was told to somebody who does not wait for it"
        # Who was away is told later what he missed, but before he is told of the end.
        assert job.live or piece.job_id in told[0].unreceived, f"{piece} came after the end"
        assert piece.attempt <= job.attempt, f"{piece} is of another attempt"

    def look_at_disk(self) -> None:
        """What was promised is there, whatever became of the broker that promised it."""
        tables = self._world.disk.tables
        gone = self._forgettable - tables.jobs.keys()
        lost = self.accepted - gone - tables.jobs.keys()
        assert not lost, f"accepted, and not kept any more: {lost}"
        for job_id, (outcome, _) in self.outcomes.items():
            if job_id in gone:
                continue
            assert tables.ends[job_id].outcome.outcome == outcome, f"{job_id}: not {outcome}"
        for job_id in self.cancelled:
            end = tables.ends.get(job_id)
            was = end.outcome.outcome if end else "cancelled"
            assert was == "cancelled", f"the cancel of {job_id} was acknowledged, it {was}"

    def power_cut(self) -> None:
        """Of attached jobs nobody is left who was promised anything."""
        gone = {one for one in self._world.specs if not self._world.specs[one].detached}
        self.accepted -= gone
        self.outcomes = {one: how for one, how in self.outcomes.items() if one not in gone}
        self.cancelled = {one: at for one, at in self.cancelled.items() if one not in gone}
        self.alarms_allowed = True
