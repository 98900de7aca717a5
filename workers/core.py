"""The worker's decisions: messages and process events in, effects out, time is an argument."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.batches import parts
from grn_zmq.records import AttemptId, Held, Released, Result, Run

from . import ending, reporting
from .blobcache import BlobCache
from .effects import (
    Discard,
    Effect,
    Feed,
    Keep,
    Kill,
    Launch,
    Note,
    Reply,
    SetAside,
    UnwatchCaller,
    WatchCaller,
)
from .events import Elsewhere, Gone, Level, Returned
from .greeting import Fence, inventory
from .reporting import Reporter
from .results import result_of, result_of_exit, result_of_return
from .runs import INLINE, ActiveRun, Phase, Processes
from .spoollog import Attempt, DropRecord, FinishRecord, Left, StartRecord
from .surroundings import begun_of

IDLE_S: Final = 60.0
MOST_IDLE: Final = 16
# A new greeting repeats results at once; this is for what neither side has noticed.
REPEAT_S: Final = 5.0


class WorkerCore:
    """The attempts and job processes of one device."""

    def __init__(self, *, on_host: bool, total_bytes: int, left: Left | None = None) -> None:
        """Begin with what earlier incarnations left, if anything.

        Args:
            on_host: Whether the device is a share of the machine's memory.
        """
        left = left or Left()
        self.on_host = on_host
        self.fence = Fence()
        self.runs: dict[str, ActiveRun] = {}
        self.processes = Processes()
        self.unrecorded: dict[Attempt, Result] = {
            attempt: record.result for attempt, record in left.results.items()
        }
        self.interrupted: set[Attempt] = set(left.interrupted)
        self.blobs = BlobCache()
        # Why no attempt is taken at present; empty if they are.
        self.declining = ""
        self._reporter = Reporter(total_bytes)
        self._leaving = False
        self._repeat_at = float("inf")

    @property
    def inventory(self) -> tuple[Held, ...]:
        """Every attempt this worker still answers for."""
        return inventory(self.runs, self.unrecorded, self.interrupted)

    def greet(self) -> tuple[int, tuple[Held, ...]]:
        """Raise the fence; give the number and the inventory of the greeting to send now."""
        return self.fence.greet(), self.inventory

    def handle(self, message: wire.Message, now: float) -> list[Effect]:
        """React to one message of the broker."""
        match message:
            case wire.Welcome():
                return self._on_welcome(message, now)
            case wire.Blobs():  # named by what they are, whoever sends them
                return self._on_blobs(message, now)
            case wire.Release():  # true of this attempt for ever, whoever passed it on
                return [effect for one in message.runs for effect in self._release(one, now)]
            case wire.Assign() | wire.End() | wire.Recorded() | wire.Unknown() if (
                not self.fence.counts(message.epoch)
            ):
                facts = {"kind": message.kind, "epoch": message.epoch}
                return [Note("dropped a message from before the last greeting", facts)]
            case wire.Assign():
                return self._on_assign(message)
            case wire.End():
                how = message.how
                return [e for one in message.attempts for e in self._end(one, how, now)]
            case wire.Recorded():
                return [e for one in message.attempts for e in self._drop(one)]
            case wire.Unknown():
                return [e for one in message.attempts for e in self._disown(one, now)]
            case wire.EndIdle():
                return ending.close(self.processes.idle(message.session), now)
        return [Note("ignored a message that is not for workers", {"kind": message.kind})]

    def _tell(self, message: wire.FromWorker) -> list[Effect]:
        """Say this, if anybody hears it; a welcome makes us repeat all that matters."""
        return [Reply(message)] if self.fence.welcomed else []

    def _on_welcome(self, message: wire.Welcome, now: float) -> list[Effect]:
        if not self.fence.admit(message):
            return [Note("ignored the answer to an older greeting", level="debug")]
        self._reporter.forget()
        self._repeat_at = now
        lacking = {
            digest
            for active in self.runs.values()
            if active.phase is Phase.LACKS_BLOBS
            for digest in active.digests
            if digest not in self.blobs
        }
        begun = [
            begun_of(one.run, one.ran_s(now))
            for one in self.runs.values()
            if one.began_at is not None
        ]
        return [
            *([Reply(wire.Want(tuple(sorted(lacking))))] if lacking else []),
            *(Reply(wire.Started(some)) for some in parts(begun, wire.MAX_JOBS_PER_MESSAGE)),
            *([Reply(wire.Leaving())] if self._leaving else []),
            *self.tick(now),
        ]

    def _on_assign(self, message: wire.Assign) -> list[Effect]:
        effects: list[Effect] = []
        missing: set[str] = set()
        refused: list[Run] = []
        for run in message.runs:
            attempt = (run.job_id, run.attempt)
            if run.kind in INLINE:  # the body is its caller's, and has outlived our last death
                self.interrupted.discard(attempt)
            known = attempt in self.unrecorded or attempt in self.interrupted
            if known or self._attempt(*attempt):
                continue  # repeated
            # Two attempts of one job are never alive at once.
            if self.declining or self._leaving or run.job_id in self.runs:
                refused.append(run)
                continue
            lacking = {d for d in (run.function, run.context) if d and d not in self.blobs}
            self.runs[run.job_id] = active = ActiveRun(run, Phase.LACKS_BLOBS)
            missing |= lacking
            if not lacking:
                effects += self._keep(active)
        if missing:
            effects += self._tell(wire.Want(tuple(sorted(missing))))
        return [*effects, *self._decline(refused)]

    def _decline(self, runs: Collection[Run]) -> list[Effect]:
        if not runs:
            return []
        why = self.declining or ("leaving" if self._leaving else "an attempt of it is here")
        attempts = tuple(AttemptId(run.job_id, run.attempt) for run in runs)
        return self._tell(wire.Declined(self.fence.epoch, why, attempts))

    def _on_blobs(self, message: wire.Blobs, now: float) -> list[Effect]:
        waiting = [one for one in self.runs.values() if one.began_at is None]
        needed = {digest for one in waiting for digest in one.digests}
        for blob in message.blobs:
            self.blobs.put(blob.digest, blob.data, needed)
        effects: list[Effect] = []
        for active in waiting:
            complete = all(digest in self.blobs for digest in active.digests)
            if active.phase is Phase.LACKS_BLOBS and complete:
                effects += self._keep(active)
        return effects

    def _keep(self, active: ActiveRun) -> list[Effect]:
        """Write down that it may have run from here on; `kept` lets it begin."""
        active.phase = Phase.KEEPING
        run = active.run
        return [Keep(StartRecord(run.job_id, run.attempt, run.detached))]

    def kept(self, now: float) -> list[Effect]:
        """All starts that were to be written are: let these attempts begin."""
        keeping = [one for one in self.runs.values() if one.phase is Phase.KEEPING]
        return [effect for active in keeping for effect in self._begin(active, now)]

    def not_kept(self, why: str) -> list[Effect]:
        """Starts could not be written: without that nothing may run here."""
        keeping = [one.run for one in self.runs.values() if one.phase is Phase.KEEPING]
        for run in keeping:
            del self.runs[run.job_id]
        self.declining = f"cannot write the spool: {why}"
        return self._decline(keeping)

    def can_keep(self) -> None:
        """The spool can be written again."""
        self.declining = ""
        self._reporter.forget()

    def _begin(self, active: ActiveRun, now: float) -> list[Effect]:
        run = active.run
        active.phase = Phase.RUNNING
        active.began_at = now
        started = self._tell(wire.Started((begun_of(run, 0.0),)))
        if active.inline:
            return [WatchCaller(run.job_id, run.pid), *started]
        effects: list[Effect] = []
        process = self.processes.serving(run)
        if process is None or not run.reuse or run.environment:
            # What serves another context of this client and type will not be needed again.
            effects += ending.close(self.processes.idle(run.session, run.job_type), now)
            process = self.processes.new(run)
            context = self.blobs.get(run.context) if run.context else b""
            effects.append(Launch(process.key, context, run.devices))
        process.idle_since = None
        process.job_id = run.job_id
        active.process = process.key
        function = None
        if run.function and run.function != process.function:
            function = self.blobs.get(run.function)
            process.function = run.function
        return [*effects, *started, Feed(process.key, run, function)]

    def launch_failed(self, key: int, reason: str, now: float) -> list[Effect]:
        """The job process could not even be started."""
        process = self.processes.pop(key)
        active = self.runs[process.job_id]
        result = result_of(active, now, "failed", "JobNotStarted", reason)
        return self._finish(active, result, now)

    def returned(self, key: int, returned: Returned, now: float) -> list[Effect]:
        """A function has ended; keep its process if that is clean, else see it off first."""
        process = self.processes[key]
        active = self.runs.get(process.job_id)
        if active is None or active.result is not None:
            return [Note("a job process spoke out of turn", {"process": key}, "warning")]
        self._take_account(active, returned.peak_bytes)
        # Frameworks add up their devices, of which each is looked at by itself.
        if returned.counters is not None and len(active.run.devices) == 1:
            active.measured.take_counters(returned.counters)
        result = result_of_return(active, returned, now)
        unwanted = returned.token if result.token != returned.token else ""
        effects: list[Effect] = [Discard(unwanted)] if unwanted else []
        if returned.reusable and active.run.reuse and not active.asked_to_end:
            process.job_id = ""
            process.idle_since = now
            surplus = self.processes.idle()[:-MOST_IDLE]
            return [*self._finish(active, result, now), *ending.close(surplus, now)]
        active.result = result
        return [*effects, *ending.see_off(active, key, now)]

    def gone(self, key: int, gone: Gone, now: float) -> list[Effect]:
        """A job process has ended, and its tree is dead: now its memory is free."""
        process = self.processes.pop(key, None)
        active = self.runs.get(process.job_id) if process and process.job_id else None
        if active is None:
            return []
        self._take_account(active, gone.peak_bytes)
        if active.result is not None:
            measured = active.measured
            result = replace(active.result, peak_bytes=measured.peak_bytes, seen=measured.seen)
        else:
            result = result_of_exit(active, gone, now, on_host=self.on_host)
        return self._finish(active, result, now)

    def run_in(self, key: int) -> ActiveRun | None:
        """The attempt that this job process runs now."""
        process = self.processes.get(key)
        return self.runs.get(process.job_id) if process else None

    def _take_account(self, active: ActiveRun, peak_bytes: int) -> None:
        active.measured.take_peak(peak_bytes)
        # What the kernel says at the end has the interpreter in it that became a command.
        active.measured.seen |= bool(peak_bytes) and not self.on_host

    def caller_unseen(self, job_id: str) -> None:
        """Nothing here tells when the process that runs an inline job ends."""
        if active := self.runs.get(job_id):
            active.unwatched = True

    def caller_gone(self, job_id: str, now: float) -> list[Effect]:
        """The process that ran an inline job is dead."""
        active = self.runs.get(job_id)
        if active is None:
            return []
        return self._finish(active, result_of(active, now, "killed"), now)

    def _finish(self, active: ActiveRun, result: Result, now: float) -> list[Effect]:
        del self.runs[result.job_id]
        if not self.unrecorded:
            self._repeat_at = now + REPEAT_S
        self.unrecorded[result.job_id, result.attempt] = result
        return [
            *([UnwatchCaller(result.job_id)] if active.inline else []),
            Keep(FinishRecord(active.run.detached, result)),
            *self._tell(wire.Finished(self.fence.epoch, (result,))),
        ]

    def _drop(self, attempt: AttemptId) -> list[Effect]:
        """The broker has what there was of an attempt: forget it."""
        key = (attempt.job_id, attempt.attempt)
        if self.unrecorded.pop(key, None) is None and key not in self.interrupted:
            return []
        self.interrupted.discard(key)
        return [Keep(DropRecord(*key))]

    def _disown(self, attempt: AttemptId, now: float) -> list[Effect]:
        """The broker never heard of an attempt that we have: this must not happen."""
        facts = {"job": attempt.job_id, "attempt": attempt.attempt}
        result = self.unrecorded.get((attempt.job_id, attempt.attempt))
        return [
            Note("the broker does not know an attempt of this worker", facts, "error"),
            *([SetAside(result)] if result is not None else []),
            *self._drop(attempt),
            *self._end(attempt, "kill", now),
        ]

    def _attempt(self, job_id: str, attempt: int) -> ActiveRun | None:
        """The run of exactly this attempt, if it is still here."""
        active = self.runs.get(job_id)
        return active if active is not None and active.run.attempt == attempt else None

    def _end(self, attempt: AttemptId, how: str, now: float) -> list[Effect]:
        active = self._attempt(attempt.job_id, attempt.attempt)
        if active is None:
            ended = (attempt.job_id, attempt.attempt)
            return self._drop(attempt) if ended in self.interrupted else []
        if active.inline and how != "kill" and not active.unwatched:
            return []  # it ends with its caller, who is told by itself
        if active.process is None:
            return self._finish(active, result_of(active, now, "cancelled"), now)
        return ending.ask_to_end(active, how, now)

    def _release(self, released: Released, now: float) -> list[Effect]:
        active = self._attempt(released.job_id, released.attempt)
        if active is None or not active.inline:
            return []
        outcome = "failed" if released.failed else "succeeded"
        return self._finish(active, result_of(active, now, outcome), now)

    def end_everything(self, now: float, most_grace_s: float = float("inf")) -> list[Effect]:
        """The worker itself is leaving: TERM now, KILL when the grace is over."""
        effects: list[Effect] = [] if self._leaving else self._tell(wire.Leaving())
        self._leaving = True
        effects += ending.close(self.processes.idle(), now)
        waiting = [one.run for one in self.runs.values() if one.began_at is None]
        for run in waiting:
            del self.runs[run.job_id]
        effects += self._decline(waiting)
        for active in self.runs.values():
            first = [] if active.inline else ending.ask_to_end(active, "terminate", now)
            active.leaving |= bool(first)
            effects += first or ending.hasten(active, now)
            if active.deadline is not None:
                active.deadline = min(active.deadline, now + most_grace_s)
        return effects

    def seen_elsewhere(self, found: Elsewhere) -> None:
        """Take note of what another device shows; the next report tells it."""
        for job_id, used_bytes in found.by_job.items():
            if active := self.runs.get(job_id):
                own = job_id in found.seen
                active.measured.take_use_elsewhere(found.device, used_bytes, own=own)

    def sampled(self, level: Level, now: float) -> list[Effect]:
        """Take note of what the device shows; tell the broker what matters.

        While attempts are declined nothing is told, so that the broker, hearing nothing,
        gives this device no more.
        """
        for job_id, used_bytes in level.by_job.items():
            if active := self.runs.get(job_id):
                own = job_id in level.seen
                active.measured.take_use(used_bytes, own=own)
                # Host memory has no places: of each device a job has an equal part.
                for one in active.run.devices[1:] if self.on_host else ():
                    active.measured.take_use_elsewhere(one.uuid, used_bytes, own=own)
        for active in self.runs.values():
            if active.began_at is not None:
                active.measured.take_load(level.utilisation, now)
        if self.declining or not self.fence.welcomed:
            return []
        news = self._reporter.news(level, self.runs.values(), now)
        return [] if news is None else [Reply(news)]

    def sample_s(self, now: float, cost_s: float) -> float:
        """Say how long after a look at the device, which costs this much, the next is due."""
        return reporting.sample_s(self.runs.values(), self.processes, now, cost_s)

    def tick(self, now: float) -> list[Effect]:
        """Take the next harder step where a grace has run out; repeat what is unrecorded."""
        effects = [effect for one in self.runs.values() for effect in ending.step(one, now)]
        for process in self.processes.values():
            if process.kill_at is not None and now >= process.kill_at:
                process.kill_at = now + ending.KILL_AGAIN_S
                effects.append(Kill(process.key))
            elif process.idle_for(now) >= IDLE_S:
                effects += ending.close([process], now)
        if self.unrecorded and now >= self._repeat_at:
            self._repeat_at = now + REPEAT_S
            results = list(self.unrecorded.values())
            for result in results:
                effects += self._tell(wire.Finished(self.fence.epoch, (result,)))
        return effects
