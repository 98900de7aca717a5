"""Simulated workers: they do what real ones do, and what those do on bad days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.runs import INLINE
from grn_zmq import wire
from grn_zmq.records import AttemptId, Begun, Held, Piece, Result, Run, Use
from tests.builders import MIB, a_greet, a_result
from tests.simulation import riding
from tests.simulation.actors import Actor
from tests.simulation.clients import SimClient
from tests.simulation.oracle import of_result
from tests.simulation.spool import Attempt
from tests.simulation.stage import NEEDS, OUTCOMES, Slot

if TYPE_CHECKING:
    from tests.simulation.world import World


# Of calls within calls.
DEEPEST: Final = 4
# What is the same when it is said again.
REPEATED: Final = (wire.Greet, wire.Started, wire.Finished, wire.Returned, wire.GivenBack)


@dataclass
class SimRun:
    """An attempt in the hands of a simulated worker."""

    run: Run
    running: bool = False
    ending: bool = False
    given_up: bool = False
    used: int = 0
    peak: int = 0
    child: SimClient | None = None
    patient: bool = True
    # The jobs of its train that come before it; and whether it is of one at all.
    ahead: frozenset[str] = frozenset()
    in_train: bool = False

    @property
    def attempt(self) -> Attempt:
        return self.run.job_id, self.run.attempt

    @property
    def waits(self) -> bool:
        """Whether its function is in a call of another job."""
        return self.patient and self.child is not None and bool(self.child.waiting)


class SimWorker(Actor):
    """One incarnation of the worker of a device. What it begins and ends is in the spool."""

    def __init__(self, world: World, slot: Slot) -> None:
        super().__init__(world)
        self.slot = slot
        self.incarnation = world.new_id()
        self.epoch = 0
        self.greeting = 0
        self.idle = 0
        self.blobs: set[str] = set()
        self.runs: dict[Attempt, SimRun] = {}
        self.unrecorded: dict[Attempt, Result] = {}
        self.interrupted: set[Attempt] = set()
        self.spool_broken = False
        self.leaving = False
        for attempt, result in slot.spool.left():
            if result is None:
                self.interrupted.add(attempt)
            else:
                self.unrecorded[attempt] = result
        self.greet()

    def greet(self) -> None:
        """Say what is here; from now on nothing counts that was said before the answer."""
        self.greeting += 1
        self.welcomed = False
        riding.forget_unbegun(self)
        inventory = [
            *(Held(*one, "running") for one in self.runs),
            *(Held(*one, "finished") for one in self.unrecorded),
            *(Held(*one, "interrupted") for one in sorted(self.interrupted)),
        ]
        self.rng.shuffle(inventory)
        self.say(
            a_greet(
                self.slot.index,
                self.slot.total,
                incarnation=self.incarnation,
                boot_id=f"boot {self.world.boot}",
                max_jobs=self.slot.max_jobs,
                inventory=tuple(inventory),
                greeting=self.greeting,
                environments=self.slot.offers,
            )
        )

    def read(self) -> None:
        message = self.inbox.popleft()
        match message:
            case wire.Welcome(_, epoch, _, greeting) if self.believes(greeting):
                self.welcomed, self.epoch = True, epoch
                self._repeat_all()
            case wire.Refused("device-taken" | "greet-first"):
                self.greet()
            case wire.Blobs(blobs):
                self.blobs |= {blob.digest for blob in blobs}
            case wire.EndIdle():
                self.idle = 0
            case _ if self.welcomed:
                self._obey(message)

    def believes(self, greeting: int) -> bool:
        return greeting == self.greeting

    def _obey(self, message: wire.Message) -> None:
        match message:
            case wire.Assign(epoch, runs) if epoch == self.epoch:
                self._take(runs)
            case wire.End(epoch, how, attempts) if epoch == self.epoch:
                for named in attempts:
                    if one := self.runs.get((named.job_id, named.attempt)):
                        one.ending, one.given_up = True, how == "kill"
            case wire.Release(runs):
                for released in runs:
                    if one := self.runs.get((released.job_id, released.attempt)):
                        self._finish(one, "failed" if released.failed else "succeeded")
            case wire.Recorded(epoch, attempts) if epoch == self.epoch:
                self._forget(attempts)
            case wire.Arrived(epoch, job_ids, numbers) if epoch == self.epoch:
                self._forget(tuple(map(AttemptId, job_ids, numbers)))
            case wire.Recall(epoch) if epoch == self.epoch:
                riding.give_back(self)
            case wire.Unknown(epoch, attempts) if epoch == self.epoch:
                self.world.oracle.alarm({one.job_id for one in attempts})
                self._forget(attempts)
            case wire.Leave():
                self.leave()

    def _forget(self, attempts: tuple[AttemptId, ...]) -> None:
        for one in attempts:
            attempt = one.job_id, one.attempt
            if attempt in self.unrecorded or attempt in self.interrupted:
                self.slot.spool.recorded(attempt)
            self.unrecorded.pop(attempt, None)
            self.interrupted.discard(attempt)

    def _take(self, trains: tuple[Run, ...]) -> None:
        runs = tuple(one for run in trains for one in riding.each_of(run))
        behind = {
            one.job_id: frozenset(before.job_id for before in members[:at])
            for members in map(riding.each_of, trains)
            for at, one in enumerate(members)
        }
        in_train = {
            one.job_id for run in trains if len(run.tail) for one in riding.each_of(run)
        }
        if self.leaving:
            self._decline(runs, "leaving")
            return
        if not self.world.draining and self.rng.random() < 0.03:
            self.spool_broken = True
            self._decline(runs, "No space left on device")
            return
        for run in runs:
            assert run.payload == self.world.specs[run.job_id].payload, "other arguments"
            attempt = run.job_id, run.attempt
            assert attempt not in self.runs, f"{attempt} was assigned twice"
            if attempt in self.interrupted:
                assert run.kind in INLINE, f"{attempt} may have run, and is assigned again"
                self.interrupted.discard(attempt)
                self.runs[attempt] = SimRun(run, running=True)
                self.say(wire.Started((_begun(run),)))  # its caller may not know
                continue
            self.runs[attempt] = SimRun(
                run,
                patient=self.rng.random() < 0.9,
                ahead=behind[run.job_id],
                in_train=run.job_id in in_train,
            )
            if run.function and run.function not in self.blobs:
                self.say(wire.Want((run.function,)))

    def _decline(self, runs: tuple[Run, ...], why: str) -> None:
        declined = tuple(AttemptId(run.job_id, run.attempt) for run in runs)
        if declined:
            self.say(wire.Declined(self.epoch, why, declined))

    def _repeat_all(self) -> None:
        if self.leaving:
            self.say(wire.Leaving())
        self.report()
        begun = []
        for one in self.runs.values():
            if one.run.function and one.run.function not in self.blobs:
                self.say(wire.Want((one.run.function,)))
            if one.running:
                begun.append(_begun(one.run))
        if begun:
            self.say(wire.Started(tuple(begun)))
        self.repeat_results()

    def start(self) -> None:
        """Begin one attempt that has all it needs: it is in the spool before it runs."""
        here = {one.run.job_id for one in self.runs.values()}
        ready = [
            one
            for one in self.runs.values()
            if not one.running
            and (not one.run.function or one.run.function in self.blobs)
            and one.ahead.isdisjoint(here)
        ]
        if ready:
            one = self.rng.choice(ready)
            self._begin(one)
            self.say(wire.Started((_begun(one.run),)))
            if self.rng.random() < self.world.crashes and not self.world.draining:
                self.crash()  # nobody has heard of this start, and perhaps nobody will

    def _begin(self, one: SimRun) -> None:
        one.running = True
        self.slot.spool.started(one.attempt, sync=one.run.detached)
        self.world.oracle.started(one.run)

    def ride(self) -> None:
        """Some of a train run one after the other, and are told of together."""
        results: list[Result] = []
        for one in [one for one in self.runs.values() if one.in_train and not one.ending]:
            here = {other.run.job_id for other in self.runs.values()}
            known = not one.run.function or one.run.function in self.blobs
            if not (known and one.ahead.isdisjoint(here)) or self.rng.random() < 0.2:
                break
            if not one.running:
                self._begin(one)
            results.append(self._end(one, "succeeded"))
        if results:
            self.say(riding.returned(self, results))

    def give_back(self) -> None:
        """Something takes too long for those behind it to wait."""
        riding.give_back(self)

    def grow(self) -> None:
        """Running jobs take and free memory, now and then more than they ever did."""
        for one in self.runs.values():
            if one.running:
                most = NEEDS[one.run.job_type] * self.rng.choice([1.0, 1.0, 2.5])
                one.used = int(most * self.rng.random()) * MIB
                one.peak = max(one.peak, one.used)
        self.report()

    def report(self) -> None:
        if self.spool_broken:
            return
        uses = tuple(use for one in self.runs.values() for use in _uses(one))
        foreign, idle = self.slot.foreign * MIB, self.idle * MIB
        self.say(wire.Report(foreign, foreign, idle, 0.0, uses))

    def mend_spool(self) -> None:
        self.spool_broken = False

    def strangers(self) -> None:
        self.slot.foreign = self.rng.choice([0, 0, 100, 400, self.slot.total])
        self.idle = self.rng.choice([0, 0, 30, 60])
        self.report()

    def end_some(self) -> None:
        """One attempt ends as its function, a signal or the broker wants it."""
        able = [one for one in self.runs.values() if self._can_end(one)]
        if able:
            one = self.rng.choice(able)
            good = one.running and self.rng.random() < (0.1 if one.ending else 0.7)
            self._finish(one, "succeeded" if good else self.rng.choice(OUTCOMES))

    def _can_end(self, one: SimRun) -> bool:
        if one.run.kind in INLINE:  # ends with its caller, or by its release
            return one.given_up or not self.world.lives(one.run.session)
        if one.ending:
            return True
        return one.running and not one.waits

    def end_well(self) -> None:
        """Everything that can return does so; nothing waits behind what cannot."""
        riding.give_back(self)
        for one in [one for one in self.runs.values() if self._can_end(one)]:
            good = one.running and not one.ending
            self._finish(one, "succeeded" if good else "killed")

    def _finish(self, one: SimRun, outcome: str) -> None:
        result = self._end(one, outcome)
        plain = one.in_train and result.outcome == "succeeded"
        alone = wire.Finished(self.epoch, (result,))
        self.say(riding.returned(self, [result]) if plain else alone)
        if one.in_train and result.outcome not in ("succeeded", "failed"):
            riding.give_back(self, behind=one.run.job_id)  # its process is gone

    def _end(self, one: SimRun, outcome: str) -> Result:
        run = one.run
        if one.ending and not one.running:
            outcome = "cancelled"
        elif outcome == "oom" and not one.running:
            outcome = "failed"
        self._gone(one)
        need = int(NEEDS[run.job_type] * self.rng.uniform(0.8, 1.0)) * MIB
        error = self.rng.choice(["ValueError", "KeyError"]) if outcome == "failed" else ""
        result = a_result(
            attempt=run.attempt,
            job_id=run.job_id,
            outcome=outcome,
            peak_bytes=max(one.peak, need),
            asked_bytes=self.rng.choice([0, 50 * MIB]) if outcome == "oom" else 0,
            payload=of_result(run),
            error_type=error if one.running else "JobNotStarted",
            error_bases=(error, "Exception") if error else (),
        )
        self.world.oracle.finished(run, outcome)
        self.slot.spool.finished(one.attempt, result, sync=run.detached)
        self.unrecorded[one.attempt] = result
        return result

    def _gone(self, one: SimRun) -> None:
        del self.runs[one.attempt]
        self.world.oracle.gone(one.run)
        if one.child is not None and one.child.alive:
            one.child.die()

    def call_a_job(self) -> None:
        """The function of a running attempt submits jobs itself."""
        depth_of = self.world.depth_of
        able = [one for one in self.runs.values() if one.running and one.child is None]
        for one in [one for one in able if depth_of(one.run.job_id) < DEEPEST][:1]:
            one.child = self.world.new_client(one.run.job_id, depth_of(one.run.job_id) + 1)
            one.child.submit()

    def print_something(self) -> None:
        pieces = tuple(Piece(*one, "stdout", b"x") for one in self.runs)
        if pieces:
            self.say(wire.Output(pieces))

    def repeat_results(self) -> None:
        for result in self.unrecorded.values():
            self.say(wire.Finished(self.epoch, (result,)))

    def repeat_something(self) -> None:
        """A message arrives again, long after its time: best while a later attempt runs."""
        said = [one for one in self.said if isinstance(one, REPEATED)]
        if old := [one for one in said if self._is_overtaken(one)] or said:
            self.outbox.append(self.rng.choice(old))

    def _is_overtaken(self, said: wire.Message) -> bool:
        about: tuple[Begun, ...] | tuple[Result, ...] = ()
        if isinstance(said, wire.Started):
            about = said.runs
        elif isinstance(said, wire.Finished):
            about = said.results
        latest = {run.job_id: run.attempt for run in (one.run for one in self.runs.values())}
        return any(one.attempt < latest.get(one.job_id, 0) for one in about)

    def leave(self) -> None:
        """An orderly end: jobs are ended, their results handed over."""
        if not self.leaving:
            self.leaving = True
            self.say(wire.Leaving())
            waiting = tuple(one.run for one in self.runs.values() if not one.running)
            for run in waiting:
                del self.runs[run.job_id, run.attempt]
            self._decline(waiting, "leaving")
            for one in list(self.runs.values()):
                self._finish(one, "lost")

    def go_if_done(self) -> None:
        if self.leaving and not self.unrecorded:
            self.crash()

    def crash(self) -> None:
        self.alive = False
        if self.rng.random() < 0.5:
            self.world.strays += [(self.peer, message) for message in self.outbox]
        self.world.dying.append(self.incarnation)
        for one in list(self.runs.values()):
            if one.run.kind not in INLINE:  # else its body is its caller's
                self._gone(one)


def _uses(one: SimRun) -> list[Use]:
    """What it uses on this device, and the same on each other of its lease."""
    others = [Use(*one.attempt, one.used, device=dev.uuid) for dev in one.run.devices[1:]]
    return [Use(*one.attempt, one.used), *others]


def _begun(run: Run) -> Begun:
    return Begun(run.job_id, run.attempt, "host", run.stand_in, {})
