"""The worker's decisions: messages and process events in, effects out, time is an argument."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, Held, Released, Result, Run
from grn_zmq.tails import NO_TAIL

from . import ending, reporting
from .blobcache import BlobCache
from .effects import (
    Discard,
    Effect,
    Feed,
    Keep,
    Note,
    Reply,
    SetAside,
    UnwatchCaller,
    WatchCaller,
)
from .events import Elsewhere, Gone, Level, Returned
from .greeting import Fence, Fenced, inventory
from .launching import process_for
from .reporting import Reporter
from .results import result_of, result_of_exit, result_of_return
from .runs import INLINE, ActiveRun, Phase, Processes
from .spoollog import Attempt, FinishRecord, Left, ReturnedRecord, StartRecord
from .surroundings import begun_of
from .trains import Trains
from .unrecorded import Unrecorded

MOST_IDLE: Final = 16


class WorkerCore:
    """The attempts and job processes of one device."""

    def __init__(self, *, on_host: bool, total_bytes: int, left: Left | None = None) -> None:
        """Begin with what earlier incarnations left, if anything.

        Args:
            on_host: Whether the device is a share of the machine's memory.
        """
        self.on_host = on_host
        self.fence = Fence()
        self.runs: dict[str, ActiveRun] = {}
        self.processes = Processes()
        self.trains = Trains(self)
        self._unrecorded = Unrecorded(left or Left())
        self.unrecorded: Mapping[Attempt, Result | ReturnedRecord] = self._unrecorded.results
        self.interrupted: Collection[Attempt] = self._unrecorded.interrupted
        self.blobs = BlobCache()
        # Why no attempt is taken at present; empty if they are.
        self.declining = ""
        self._reporter = Reporter(total_bytes)
        self.leaving = False
        self._later: list[Effect] = []

    @property
    def epoch(self) -> int:
        """Of the broker that counts."""
        return self.fence.epoch

    @property
    def inventory(self) -> tuple[Held, ...]:
        """Every attempt this worker still answers for."""
        running = [(one.run.job_id, one.run.attempt) for one in self.runs.values()]
        running += self.trains.fed_behind()
        return inventory(running, self.unrecorded, self.interrupted)

    def greet(self) -> tuple[int, tuple[Held, ...]]:
        """Raise the fence; give the number and the inventory of the greeting to send now.

        What follows others and has not begun is not in it, and forgotten.
        """
        number = self.fence.greet()
        self._later += self.trains.recall()
        return number, self.inventory

    def handle(self, message: wire.Message, now: float) -> list[Effect]:
        """React to one message of the broker."""
        match message:
            case wire.Welcome():
                return self._on_welcome(message, now)
            case wire.Blobs():  # named by what they are, whoever sends them
                return self._on_blobs(message, now)
            case wire.Release():  # true of this attempt for ever, whoever passed it on
                return [effect for one in message.runs for effect in self._release(one, now)]
            case _ if isinstance(message, Fenced) and not self.fence.counts(message.epoch):
                facts = {"kind": message.kind, "epoch": message.epoch}
                return [Note("dropped a message from before the last greeting", facts)]
            case wire.Assign():
                return self._on_assign(message)
            case wire.End():
                how = message.how
                return [e for one in message.attempts for e in self._end(one, how, now)]
            case wire.Recall():
                return self.trains.recall()
            case wire.Recorded():
                return self._unrecorded.drop(message.attempts)
            case wire.Arrived(_, job_ids, attempts):
                return self._unrecorded.drop_all(zip(job_ids, attempts, strict=True))
            case wire.Unknown():
                return [e for one in message.attempts for e in self._disown(one, now)]
            case wire.EndIdle():
                return ending.close(self.processes.idle(message.session), now)
        return [Note("ignored a message that is not for workers", {"kind": message.kind})]

    def tell(self, message: wire.FromWorker) -> list[Effect]:
        """Say this, if anybody hears it; a welcome makes us repeat all that matters."""
        return [Reply(message)] if self.fence.welcomed else []

    def _on_welcome(self, message: wire.Welcome, now: float) -> list[Effect]:
        if not self.fence.admit(message):
            return [Note("ignored the answer to an older greeting", level="debug")]
        self._reporter.forget()
        self._unrecorded.repeat_at = now
        waiting = [one for one in self.runs.values() if one.phase is Phase.LACKS_BLOBS]
        needed = {digest for one in waiting for digest in one.digests}
        lacking = {digest for digest in needed if digest not in self.blobs}
        running = [one for one in self.runs.values() if one.began_at is not None]
        begun = [begun_of(one.run, one.ran_s(now)) for one in running]
        for one in running:
            one.told = True
        return [
            *([Reply(wire.Want(tuple(sorted(lacking))))] if lacking else []),
            *(Reply(wire.Started(some)) for some in parts(begun, wire.MAX_JOBS_PER_MESSAGE)),
            *([Reply(wire.Leaving())] if self.leaving else []),
            *self.tick(now),
        ]

    def _on_assign(self, message: wire.Assign) -> list[Effect]:
        effects: list[Effect] = []
        missing: set[str] = set()
        refused: list[Run] = []
        for run in message.runs:
            attempt = (run.job_id, run.attempt)
            if run.kind in INLINE:  # the body is its caller's, and has outlived our last death
                self._unrecorded.interrupted.discard(attempt)
            if attempt in self._unrecorded or self._attempt(*attempt):
                continue  # repeated
            # Two attempts of one job are never alive at once.
            if self.declining or self.leaving or self._is_alive(run.job_id):
                refused.append(run)
                continue
            if run.tail:
                effects += self.trains.couple(run, self._is_alive)
                run = replace(run, tail=NO_TAIL)
            lacking = {d for d in (run.function, run.context) if d and d not in self.blobs}
            self.runs[run.job_id] = active = ActiveRun(run, Phase.LACKS_BLOBS)
            missing |= lacking
            if not lacking:
                effects += self._keep(active)
        if missing:
            effects += self.tell(wire.Want(tuple(sorted(missing))))
        effects += [effect for run in refused for effect in self.trains.refuse(run)]
        return [*effects, *self._decline(refused, coupled=False)]

    def _is_alive(self, job_id: str) -> bool:
        return job_id in self.runs or job_id in self.trains.of_job

    def _decline(self, runs: Collection[Run], *, coupled: bool = True) -> list[Effect]:
        if not runs:
            return []
        effects: list[Effect] = []
        for run in runs if coupled else ():
            effects += self.trains.forget(run)
            if self._attempt(run.job_id, run.attempt):
                del self.runs[run.job_id]
        why = self.declining or ("leaving" if self.leaving else "an attempt of it is here")
        attempts = tuple(AttemptId(run.job_id, run.attempt) for run in runs)
        return [*effects, *self.tell(wire.Declined(self.fence.epoch, why, attempts))]

    def _on_blobs(self, message: wire.Blobs, now: float) -> list[Effect]:
        waiting = [one for one in self.runs.values() if one.began_at is None]
        needed = {digest for one in waiting for digest in one.digests}
        for blob in message.blobs:
            self.blobs.put(blob.digest, blob.data, needed)
        complete = [one for one in waiting if all(d in self.blobs for d in one.digests)]
        lacked = [one for one in complete if one.phase is Phase.LACKS_BLOBS]
        return [effect for one in lacked for effect in self._keep(one)]

    def _keep(self, active: ActiveRun) -> list[Effect]:
        """Write down that it may have run from here on; `kept` lets it begin."""
        active.phase = Phase.KEEPING
        run = active.run
        if train := self.trains.of_job.get(run.job_id):
            return [Keep(train.record)]
        return [Keep(StartRecord(run.job_id, run.attempt, run.detached))]

    def kept(self, now: float) -> list[Effect]:
        """All starts that were to be written are: let these attempts begin."""
        return [effect for active in self._keeping() for effect in self._begin(active, now)]

    def _keeping(self) -> list[ActiveRun]:
        return [one for one in self.runs.values() if one.phase is Phase.KEEPING]

    def not_kept(self, why: str) -> list[Effect]:
        """Starts could not be written: without that nothing may run here."""
        self.declining = f"cannot write the spool: {why}"
        return self._decline([one.run for one in self._keeping()])

    def can_keep(self) -> None:
        """The spool can be written again."""
        self.declining = ""
        self._reporter.forget()

    def _begin(self, active: ActiveRun, now: float) -> list[Effect]:
        run = active.run
        active.phase = Phase.RUNNING
        active.began_at = now
        started = self.tell(wire.Started((begun_of(run, 0.0),)))
        if active.inline:
            return [WatchCaller(run.job_id, run.pid), *started]
        process, effects = process_for(run, self.processes, self.blobs, now)
        active.process = process.key
        function = None
        if run.function and run.function != process.function:
            function = self.blobs.get(run.function)
            process.function = run.function
        if train := self.trains.of_job.get(run.job_id):
            return [*effects, *started, self.trains.begin(train, process.key, function, now)]
        return [*effects, *started, Feed(process.key, run, function)]

    def ready(self, key: int, now: float) -> None:
        """A job process is set up."""
        if process := self.processes.get(key):
            process.ready = True
            self.trains.ready(key, now)

    def launch_failed(self, key: int, reason: str, now: float) -> list[Effect]:
        """The job process could not even be started."""
        given_back = self.trains.gone(key, now, fed=False)
        process = self.processes.pop(key)
        active = self.runs[process.job_id]
        result = result_of(active, now, "failed", "JobNotStarted", reason)
        return [*given_back, *self.finish(active, result, now)]

    def returned(self, key: int, returned: Returned, now: float) -> list[Effect]:
        """A function has ended; keep its process if that is clean, else see it off first."""
        process = self.processes[key]
        active = self.runs.get(process.job_id)
        if active is None or active.result is not None:
            return [Note("a job process spoke out of turn", {"process": key}, "warning")]
        began = self.trains.told(active, now)
        active.measured.take_account(returned.peak_bytes, on_host=self.on_host)
        # Frameworks add up their devices, of which each is looked at by itself.
        if returned.counters is not None and len(active.run.devices) == 1:
            active.measured.take_counters(returned.counters)
        result = result_of_return(active, returned, now)
        unwanted = returned.token if result.token != returned.token else ""
        effects: list[Effect] = [*began, *([Discard(unwanted)] if unwanted else [])]
        train = self.trains.of_process.get(key)
        passes = active.leaving and self.trains.goes_on(key)  # its own was heard late
        if returned.reusable and active.run.reuse and (passes or not active.asked_to_end):
            effects += self.finish(active, result, now)
            if train is None:
                return [*effects, *self.make_idle(key, now)]
            self.trains.returned(train, 1)
            return [*effects, *self.trains.go_on(train, active, now)]
        active.result = result
        given_back = self.trains.recall([train]) if train else []
        return [*effects, *given_back, *ending.see_off(active, key, now)]

    def make_idle(self, key: int, now: float) -> list[Effect]:
        """A job process has nothing to do."""
        process = self.processes[key]
        process.job_id = ""
        process.idle_since = now
        if self.leaving:
            return ending.close([process], now)
        return ending.close(self.processes.idle()[:-MOST_IDLE], now)

    def gone(self, key: int, gone: Gone, now: float) -> list[Effect]:
        """A job process has ended, and its tree is dead: now its memory is free."""
        given_back = self.trains.gone(key, now)
        process = self.processes.pop(key, None)
        active = self.runs.get(process.job_id) if process and process.job_id else None
        if active is None:
            return given_back
        active.measured.take_account(gone.peak_bytes, on_host=self.on_host)
        if active.result is not None:
            measured = active.measured
            result = replace(active.result, peak_bytes=measured.peak_bytes, seen=measured.seen)
        else:
            result = result_of_exit(active, gone, now, on_host=self.on_host)
        began = self.trains.told(active, now)
        return [*given_back, *began, *self.finish(active, result, now)]

    def run_in(self, key: int) -> ActiveRun | None:
        """The attempt that this job process runs now."""
        process = self.processes.get(key)
        return self.runs.get(process.job_id) if process else None

    def caller_unseen(self, job_id: str) -> None:
        """Nothing here tells when the process that runs an inline job ends."""
        if active := self.runs.get(job_id):
            active.unwatched = True

    def caller_gone(self, job_id: str, now: float) -> list[Effect]:
        """The process that ran an inline job is dead."""
        active = self.runs.get(job_id)
        if active is None:
            return []
        return self.finish(active, result_of(active, now, "killed"), now)

    def answer_for(self, record: ReturnedRecord, now: float) -> None:
        """Keep what calls of a train returned until it is recorded."""
        self._unrecorded.add_all(record, now)

    def finish(self, active: ActiveRun, result: Result, now: float) -> list[Effect]:
        """An attempt has ended: write that down, and tell it."""
        del self.runs[result.job_id]
        self._unrecorded.add(result, now)
        self.trains.ended([(result.job_id, result.attempt)])
        return [
            *([UnwatchCaller(result.job_id)] if active.inline else []),
            Keep(FinishRecord(active.run.detached, result)),
            *self.tell(wire.Finished(self.fence.epoch, (result,))),
        ]

    def _disown(self, attempt: AttemptId, now: float) -> list[Effect]:
        """The broker never heard of an attempt that we have: this must not happen."""
        facts = {"job": attempt.job_id, "attempt": attempt.attempt}
        result = self._unrecorded.result((attempt.job_id, attempt.attempt))
        return [
            Note("the broker does not know an attempt of this worker", facts, "error"),
            *([SetAside(result)] if result is not None else []),
            *self._unrecorded.drop([attempt]),
            *self._end(attempt, "kill", now),
        ]

    def _attempt(self, job_id: str, attempt: int) -> ActiveRun | None:
        """The run of exactly this attempt, if it is still here."""
        active = self.runs.get(job_id)
        return active if active is not None and active.run.attempt == attempt else None

    def _end(self, attempt: AttemptId, how: str, now: float) -> list[Effect]:
        active = self._attempt(attempt.job_id, attempt.attempt)
        key = (attempt.job_id, attempt.attempt)
        train = self.trains.of_job.get(attempt.job_id)
        if train is not None and (train.process is not None or active is None):
            return self.trains.end(train, key, how, now)
        if active is None:
            return self._unrecorded.drop([attempt]) if key in self.interrupted else []
        if active.inline and how != "kill" and not active.unwatched:
            return []  # it ends with its caller, who is told by itself
        if active.process is None:
            given_back = self.trains.forget(active.run)
            cancelled = result_of(active, now, "cancelled")
            return [*given_back, *self.finish(active, cancelled, now)]
        return ending.ask_to_end(active, how, now)

    def _release(self, released: Released, now: float) -> list[Effect]:
        active = self._attempt(released.job_id, released.attempt)
        if active is None or not active.inline:
            return []
        outcome = "failed" if released.failed else "succeeded"
        return self.finish(active, result_of(active, now, outcome), now)

    def end_everything(self, now: float, most_grace_s: float = float("inf")) -> list[Effect]:
        """The worker itself is leaving: TERM now, KILL when the grace is over."""
        effects: list[Effect] = [] if self.leaving else self.tell(wire.Leaving())
        self.leaving = True
        effects += self.trains.recall()
        effects += ending.close(self.processes.idle(), now)
        waiting = [one.run for one in self.runs.values() if one.began_at is None]
        effects += self._decline(waiting)
        return [*effects, *ending.end_all(self.runs.values(), now, most_grace_s)]

    def seen_elsewhere(self, found: Elsewhere) -> None:
        """Take note of what another device shows; the next report tells it."""
        reporting.take_elsewhere(found, self.runs)

    def sampled(self, level: Level, now: float) -> list[Effect]:
        """Take note of what the device shows; tell the broker, unless attempts are declined."""
        reporting.take(level, self.runs, now, on_host=self.on_host)
        if self.declining or not self.fence.welcomed:
            return []
        news = self._reporter.news(level, self.runs.values(), now)
        return [] if news is None else [Reply(news)]

    def sample_s(self, now: float, cost_s: float) -> float:
        """Say how long after a look at the device, which costs this much, the next is due."""
        return reporting.sample_s(self.runs.values(), self.processes, now, cost_s)

    def tick(self, now: float) -> list[Effect]:
        """Take the next harder step where a grace has run out; repeat what is unrecorded."""
        effects, self._later = self._later, []
        effects += [effect for one in self.runs.values() for effect in ending.step(one, now)]
        effects += self.trains.tick(now)
        effects += ending.step_processes(self.processes.values(), now)
        if self.fence.welcomed:
            effects += map(Reply, self._unrecorded.to_repeat(self.fence.epoch, now))
        return effects
