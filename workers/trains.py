"""Calls that follow one another in one job process. Pure.

The first in the process is the current one: it alone is a run of the core. Whether the next
has begun is not known here, only to the kernel (`grn_zmq/traincalls.py`): what must be known is
asked for by taking back all that has not begun.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, Run
from grn_zmq.tails import NO_TAIL

from . import ending
from .effects import Effect, FeedTrain, Keep, Note, TakeBack
from .results import plain_return, result_of
from .runs import ActiveRun, Member, Phase
from .spoollog import Attempt, DropsRecord
from .surroundings import begun_of
from .train import Train, can_lead, records_of
from .traincore import Core
from .unrecorded import returned_of

# A call that takes longer is a run like any other: its start is told, its output is live.
LIVE_S: Final = 0.05
# Whoever waits behind a call that takes longer than this is better off elsewhere.
GIVE_BACK_S: Final = 0.25


class Trains:
    """All trains of one worker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._numbers = count(1)
        self.of_job: dict[str, Train] = {}
        self.of_process: dict[int, Train] = {}

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[Train]:
        return list({id(one): one for one in self.of_job.values()}.values())

    def couple(self, run: Run, alive: Callable[[str], bool]) -> list[Effect]:
        """Take in a run with its tail; what cannot follow is given back.

        Args:
            alive: Whether an attempt of this job is here already.
        """
        tail = run.tail
        rows = zip(tail.job_ids, tail.attempts, tail.numbers, tail.payloads, strict=True)
        members = [Member(place, *row) for place, row in enumerate(rows, 1)]
        follow = [one for one in members if not alive(one.job_id)] if can_lead(run) else []
        unfit = list(set(members) - set(follow)) if len(follow) < len(members) else []
        effects = self._given_back(unfit)
        if follow:
            first = Member(0, run.job_id, run.attempt, run.number, run.payload)
            used = {one.slot for one in self._all()}
            slot = next(one for one in count() if one not in used)
            like = replace(run, tail=NO_TAIL, payload=b"")
            train = Train(next(self._numbers), slot, like, deque([first, *follow]))
            self.of_job |= dict.fromkeys([one.job_id for one in train.waiting], train)
        return effects

    def begin(self, train: Train, key: int, function: bytes | None, now: float) -> FeedTrain:
        """Give the first calls to a job process."""
        train.process = key
        self.of_process[key] = train
        # A process that is being started needs its time.
        train.since = now if self._core.processes[key].ready else float("inf")
        train.measured = self._core.runs[train.like.job_id].measured
        return self._feed(train, function)

    def ready(self, key: int, now: float) -> None:
        """A job process is set up: its first call begins."""
        if train := self.of_process.get(key):
            train.since = now

    def _feed(self, train: Train, function: bytes | None = None) -> FeedTrain:
        assert train.process is not None
        calls = train.next_packet()
        run = self._core.runs[calls[0].job_id].run
        return FeedTrain(train.process, run, function, train.number, train.slot, calls)

    def ended(self, attempts: Iterable[Attempt]) -> None:
        """These are over, in whatever way."""
        for job_id, _ in attempts:
            self.of_job.pop(job_id, None)

    def returned(self, train: Train, how_many: int) -> list[Member]:
        """So many have ended, from the current one on; `go_on` lets the next follow."""
        members = [train.fed.popleft() for _ in range(how_many)]
        for member in members:
            self.of_job.pop(member.job_id, None)
        return members

    def values(
        self, key: int, run_s: Sequence[float], payloads: Sequence[bytes], now: float
    ) -> list[Effect]:
        """Calls returned values, from the current one on, and all is well."""
        train = self.of_process.get(key)
        if train is None or len(payloads) > len(train.fed):
            return [Note("a job process spoke out of turn", {"process": key}, "warning")]
        active = self._core.runs[train.fed[0].job_id]
        if active.told or active.asked_to_end:
            first = self._core.returned(key, plain_return(payloads[0]), now)
            more = self.values(key, run_s[1:], payloads[1:], now) if payloads[1:] else []
            return [*first, *more]
        members = self.returned(train, len(payloads))
        del self._core.runs[active.run.job_id]
        effects: list[Effect] = []
        for record in records_of(train, members, run_s, payloads):
            self._core.answer_for(record, now)
            message = returned_of(record, self._core.epoch)
            effects += [Keep(record), *self._core.tell(message)]
        return [*effects, *self.go_on(train, active, now)]

    def go_on(self, train: Train, before: ActiveRun | None, now: float) -> list[Effect]:
        """The current one has ended: the next takes its place.

        Args:
            before: The one that was current, if it is to be ended: so is the next then.
        """
        train.since = now
        if train.fed:
            self._make_current(train, before, now)
            return self._look(train, now)
        return self._next(train, now)

    def _next(self, train: Train, now: float) -> list[Effect]:
        """Nothing of it is in the job process: feed it, or let it be idle."""
        assert train.process is not None
        effects = self._cancelled(train, now)
        if train.closing or self._core.leaving:
            effects += self._give_back_waiting(train)
        if not train.waiting:
            del self.of_process[train.process]
            return [*effects, *self._core.make_idle(train.process, now)]
        if train.waiting[0].job_id not in self._core.runs:
            self._make_current(train, None, now)
        if self._core.leaving:
            return effects
        effects.append(self._feed(train))
        wanted = any(one.key in train.ends for one in train.fed)
        return [*effects, *(self._take_back(train) if wanted else [])]

    def _make_current(self, train: Train, before: ActiveRun | None, now: float) -> None:
        assert train.process is not None
        member = (train.fed or train.waiting)[0]
        active = ActiveRun(train.run_of(member), Phase.RUNNING, now, train.process)
        active.measured = train.measured
        active.told = False
        if before is not None and before.leaving:
            ending.pass_on(before, active)
        self._core.runs[member.job_id] = active
        self._core.processes[train.process].job_id = member.job_id

    def taken_back(
        self, key: int, how_many: int, now: float, *, over: bool = False
    ) -> list[Effect]:
        """So many of those that were fed never begin, the last ones.

        Args:
            over: The process is gone: nothing can be fed to it any more.
        """
        train = self.of_process.get(key)
        if train is None:
            return []
        train.waiting.extendleft([train.fed.pop() for _ in range(how_many)])
        train.sealed, train.asked = True, False
        train.closing |= over
        if train.fed:
            return [*self._cancelled(train, now), *self._look(train, now)]
        first = train.waiting[0] if train.waiting else None
        if first and (active := self._core.runs.get(first.job_id)) and not active.told:
            del self._core.runs[first.job_id]
        return self._give_back_waiting(train) if over else self._next(train, now)

    def _look(self, train: Train, now: float) -> list[Effect]:
        """See to what waited until it was known who has begun."""
        effects = self._give_back_waiting(train) if train.closing else []
        if not train.sealed or len(train.fed) != 1:
            return effects
        current = train.fed[0]
        active = self._core.runs[current.job_id]
        effects += self.told(active, now)
        how = train.ends.get(current.key)
        train.ends = {}
        if how:
            effects += self._end_current(train, active, how, now)
        return effects

    def _end_current(
        self, train: Train, active: ActiveRun, how: str, now: float
    ) -> list[Effect]:
        train.closing = True  # its process is not used again
        effects = self._give_back_waiting(train)
        return [*effects, *ending.ask_to_end(active, how, now)]

    def told(self, active: ActiveRun, now: float) -> list[Effect]:
        """Let it be known that this one has begun, unless it is."""
        if active.told:
            return []
        active.told = True
        return self._core.tell(wire.Started((begun_of(active.run, active.ran_s(now)),)))

    def end(self, train: Train, attempt: Attempt, how: str, now: float) -> list[Effect]:
        """End one of them; whoever has not begun never does."""
        train.ends[attempt] = how
        effects = self._cancelled(train, now)
        if attempt not in train.ends:
            return effects
        if train.sealed and len(train.fed) == 1:
            return [*effects, *self._look(train, now)]
        return [*effects, *self._take_back(train)]

    def _cancelled(self, train: Train, now: float) -> list[Effect]:
        """Those that wait and are to be ended are over."""
        effects: list[Effect] = []
        for member in [one for one in train.waiting if one.key in train.ends]:
            train.waiting.remove(member)
            del train.ends[member.key]
            active = self._core.runs.get(member.job_id)
            if active is None:
                active = ActiveRun(train.run_of(member), Phase.KEEPING)
                self._core.runs[member.job_id] = active
            effects += self._core.finish(active, result_of(active, now, "cancelled"), now)
        return effects

    def _take_back(self, train: Train) -> list[Effect]:
        if train.process is None or train.asked or train.sealed or not train.fed:
            return []
        train.asked = True
        return [TakeBack(train.process, train.packets)]

    def not_begun(self, key: int, now: float) -> None:
        """The current call of a process has not even begun: look again later."""
        if train := self.of_process.get(key):
            train.asked = False
            train.since = now

    def recall(self, trains: Iterable[Train] | None = None) -> list[Effect]:
        """Give back all that has not begun: now, or as soon as it is known what has not."""
        effects: list[Effect] = []
        for train in self._all() if trains is None else list(trains):
            train.closing = True
            effects += self._give_back_waiting(train)
            first = train.fed[0].job_id if train.fed else ""
            if len(train.fed) > 1 or (first and not self._core.runs[first].told):
                effects += self._take_back(train)
        return effects

    def forget(self, run: Run) -> list[Effect]:
        """The first of a train will not begin: what was to follow is given back."""
        train = self.of_job.pop(run.job_id, None)
        if train is None:
            return []
        train.waiting = deque(one for one in train.waiting if one.job_id != run.job_id)
        return self._give_back_waiting(train)

    def gone(self, key: int, now: float, *, fed: bool = True) -> list[Effect]:
        """A job process is gone, and with it its current call; what waited is given back.

        Whatever else of it was fed may have run: the kernel has told of those that did not.

        Args:
            fed: Whether anything came to the process at all.
        """
        train = self.of_process.pop(key, None)
        if train is None:
            return []
        current = self._core.processes[key].job_id
        begun = [one for one in train.fed if one.job_id != current]
        back = [one for one in train.waiting if one.job_id != current]
        if not fed:
            begun, back = [], [*begun, *back]
        effects = self._given_back([one for one in back if one.job_id in self.of_job])
        for member in [one for one in begun if one.job_id in self.of_job]:
            active = ActiveRun(train.run_of(member), Phase.RUNNING, now, key)
            self._core.runs[member.job_id] = active
            effects += self.told(active, now)
            effects += self._core.finish(active, result_of(active, now, "killed"), now)
        return effects

    def refuse(self, run: Run) -> list[Effect]:
        """This run is not taken, and so is nothing that was to follow it."""
        attempts = list(map(AttemptId, run.tail.job_ids, run.tail.attempts))
        effects: list[Effect] = []
        for some in parts(attempts, wire.MAX_JOBS_PER_MESSAGE):
            effects += self._core.tell(wire.GivenBack(self._core.epoch, some))
        return effects

    def _give_back_waiting(self, train: Train) -> list[Effect]:
        """Give back all that waits, but for one whose start was told: that begins."""
        runs = self._core.runs
        kept = [one for one in train.waiting if one.job_id in runs and runs[one.job_id].told]
        members = [one for one in train.waiting if one not in kept]
        train.waiting = deque(kept)
        return self._given_back(members)

    def _given_back(self, members: Sequence[Member]) -> list[Effect]:
        if not members:
            return []
        self.ended([one.key for one in members])
        for one in members:
            self._core.runs.pop(one.job_id, None)
        ids = tuple(one.job_id for one in members)
        effects: list[Effect] = [Keep(DropsRecord(ids, tuple(one.attempt for one in members)))]
        attempts = [AttemptId(*one.key) for one in members]
        for some in parts(attempts, wire.MAX_JOBS_PER_MESSAGE):
            effects += self._core.tell(wire.GivenBack(self._core.epoch, some))
        return effects

    def tick(self, now: float) -> list[Effect]:
        """See to those whose current call takes long."""
        effects: list[Effect] = []
        for train in list(self.of_process.values()):
            if now < self._due(train):
                continue
            if train.sealed:
                effects += self._give_back_waiting(train)
            elif train.process is not None:
                train.asked = True
                begun = (train.number, train.fed[0].place + 1)
                effects.append(TakeBack(train.process, train.packets, train.slot, begun))
        return effects

    def next_at(self) -> float:
        """When one of them is to be looked at."""
        return min(map(self._due, self.of_process.values()), default=float("inf"))

    def _due(self, train: Train) -> float:
        if self._core.leaving:
            return float("inf")
        if train.sealed:
            return train.since + GIVE_BACK_S if train.waiting else float("inf")
        if train.asked or not train.fed:
            return float("inf")
        current = self._core.runs[train.fed[0].job_id]
        alone = len(train.fed) == 1 and current.told
        return float("inf") if alone and not train.waiting else train.since + LIVE_S

    @property
    def at_work(self) -> bool:
        """Whether calls of any are in a job process."""
        return any(one.fed for one in self.of_process.values())

    def is_over(self, key: int, packet: int) -> bool:
        """Whether another packet was fed since; what is to be ended of it is asked for anew."""
        train = self.of_process.get(key)
        return train is not None and train.packets != packet

    def goes_on(self, key: int) -> bool:
        """Whether another call follows the current one in this process, as far as is known."""
        train = self.of_process.get(key)
        return train is not None and len(train.fed) > 1

    def is_pausing(self, key: int, how_many: int) -> bool:
        """Whether nothing of it is in the process once so many have ended."""
        train = self.of_process.get(key)
        return train is not None and len(train.fed) <= how_many

    def is_ending(self, key: int, how_many: int) -> bool:
        """Whether nothing of it is left at all once so many have ended."""
        train = self.of_process.get(key)
        return train is not None and len(train.fed) + len(train.waiting) <= how_many

    def fed_behind(self) -> list[Attempt]:
        """Those behind the current ones that may begin, as far as is known."""
        return [one.key for train in self.of_process.values() for one in list(train.fed)[1:]]
