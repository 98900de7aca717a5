"""The worker's decisions: messages and process events in, effects out, time is an argument."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from signal import SIGINT, SIGTERM
from typing import Final

from grn_zmq import wire
from grn_zmq.records import AttemptId, Begun, Released, Result, Use

from .blobcache import BlobCache
from .effects import (
    Close,
    Effect,
    Feed,
    Kill,
    Launch,
    Note,
    Reply,
    Signal,
    UnwatchCaller,
    WatchCaller,
)
from .events import Gone, Level, Returned
from .results import result_of, result_of_exit, result_of_return
from .runs import ActiveRun, Phase, Process, Processes

# Between TERM and KILL, and between INT and TERM.
GRACE_S: Final = 5.0
# A job process whose function has returned needs no grace: atexit handlers, then the end.
LEAVE_S: Final = 1.0
IDLE_S: Final = 60.0
MOST_IDLE: Final = 16
# A new greeting repeats results at once; this is for what neither side has noticed. Far longer
# than the largest result takes to travel, or repeats would stand in its way.
REPEAT_S: Final = 30.0
HEARTBEAT_S: Final = 1.0
# A change of this part of the device is told at once instead of with the next heartbeat.
NOTABLE_PART: Final = 64
# How often the device is looked at: while jobs run, while nothing does, and in the first
# minute of a type that is hardly known, where looking, all told, must take less than a
# fiftieth of a core. A peak as long as two periods is never missed.
SAMPLE_S: Final = 0.1
IDLE_SAMPLE_S: Final = 0.25
YOUNG_SAMPLE_S: Final = 0.04
YOUNG_FOR_S: Final = 60.0
COST_PART: Final = 0.018


class WorkerCore:
    """The attempts and job processes of one device."""

    def __init__(self, device: str, environment: Mapping[str, str], total_bytes: int) -> None:
        self.device = device
        self.on_host = device.startswith("host")
        self.environment = dict(environment)
        self.epoch = 0
        self.runs: dict[str, ActiveRun] = {}
        self.processes = Processes()
        self.unrecorded: dict[tuple[str, int], Result] = {}
        self.blobs = BlobCache()
        self._total_bytes = total_bytes
        self._told: wire.Report | None = None
        self._told_at = float("-inf")
        self._repeat_at = float("inf")

    @property
    def inventory(self) -> tuple[AttemptId, ...]:
        """Every attempt this worker still answers for."""
        running = [(one.run.job_id, one.run.attempt) for one in self.runs.values()]
        return tuple(AttemptId(*one) for one in [*running, *self.unrecorded])

    def handle(self, message: wire.Message, now: float) -> list[Effect]:
        """React to one message of the broker."""
        match message:
            case wire.Welcome():
                return self._on_welcome(message, now)
            case wire.Assign():
                return self._on_assign(message, now)
            case wire.Blobs():
                return self._on_blobs(message, now)
            case wire.End():
                return self._on_end(message, now)
            case wire.Release():
                return [effect for one in message.runs for effect in self._release(one, now)]
            case wire.Recorded():
                for one in message.attempts:
                    self.unrecorded.pop((one.job_id, one.attempt), None)
                return []
            case wire.EndIdle():
                return _close(self.processes.idle(message.session), now)
        return [Note("ignored a message that is not for workers", {"kind": message.kind})]

    def _on_welcome(self, message: wire.Welcome, now: float) -> list[Effect]:
        self.epoch = message.epoch
        self._told = None
        self._repeat_at = now
        return self.tick(now)

    def _on_assign(self, message: wire.Assign, now: float) -> list[Effect]:
        if message.epoch != self.epoch:
            return [Note("dropped an assignment of an earlier broker", level="warning")]
        effects: list[Effect] = []
        missing: set[str] = set()
        for run in message.runs:
            if run.job_id in self.runs:
                continue
            lacking = {d for d in (run.function, run.context) if d and d not in self.blobs}
            phase = Phase.LACKS_BLOBS if lacking else Phase.RUNNING
            self.runs[run.job_id] = active = ActiveRun(run, phase)
            missing |= lacking
            if not lacking:
                effects += self._begin(active, now)
        if missing:
            effects.append(Reply(wire.Want(tuple(sorted(missing)))))
        return effects

    def _on_blobs(self, message: wire.Blobs, now: float) -> list[Effect]:
        waiting = [one for one in self.runs.values() if one.phase is Phase.LACKS_BLOBS]
        needed = {digest for one in waiting for digest in one.digests}
        for blob in message.blobs:
            self.blobs.put(blob.digest, blob.data, needed)
        effects: list[Effect] = []
        for active in waiting:
            if all(digest in self.blobs for digest in active.digests):
                effects += self._begin(active, now)
        return effects

    def _begin(self, active: ActiveRun, now: float) -> list[Effect]:
        run = active.run
        active.phase = Phase.RUNNING
        active.began_at = now
        begun = Begun(run.job_id, run.attempt, self.device, run.stand_in, self.environment)
        started = Reply(wire.Started((begun,)))
        if active.inline:
            return [WatchCaller(run.job_id, run.pid), started]
        effects: list[Effect] = []
        process = self.processes.serving(run)
        if process is None or not run.reuse:
            # What serves another context of this client and type will not be needed again.
            effects += _close(self.processes.idle(run.session, run.job_type), now)
            process = self.processes.new(run)
            context = self.blobs.get(run.context) if run.context else b""
            effects.append(Launch(process.key, context))
        process.idle_since = None
        process.job_id = run.job_id
        active.process = process.key
        function = None
        if run.function and run.function != process.function:
            function = self.blobs.get(run.function)
            process.function = run.function
        return [*effects, started, Feed(process.key, run, function)]

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
        if returned.counters is not None:
            active.measured.take_counters(returned.counters)
        result = result_of_return(active, returned, now)
        if returned.reusable and active.run.reuse and not active.asked_to_end:
            process.job_id = ""
            process.idle_since = now
            surplus = self.processes.idle()[:-MOST_IDLE]
            return [*self._finish(active, result, now), *_close(surplus, now)]
        active.result = result
        active.phase = Phase.ENDING
        active.next_signal = None
        active.deadline = now + LEAVE_S
        return [Close(key)]

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

    def _take_account(self, active: ActiveRun, peak_bytes: int) -> None:
        active.measured.take_peak(peak_bytes)
        # What the kernel says at the end has the interpreter in it that became a command.
        active.measured.seen |= bool(peak_bytes) and not self.on_host

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
        effects: list[Effect] = [UnwatchCaller(result.job_id)] if active.inline else []
        return [*effects, Reply(wire.Finished(self.epoch, (result,)))]

    def _attempt(self, job_id: str, attempt: int) -> ActiveRun | None:
        """The run of exactly this attempt, if it is still here."""
        active = self.runs.get(job_id)
        return active if active is not None and active.run.attempt == attempt else None

    def _on_end(self, message: wire.End, now: float) -> list[Effect]:
        if message.epoch != self.epoch:
            return []
        how = message.how
        return [effect for one in message.attempts for effect in self._end(one, how, now)]

    def _end(self, attempt: AttemptId, how: str, now: float) -> list[Effect]:
        active = self._attempt(attempt.job_id, attempt.attempt)
        if active is None:
            return []
        if active.inline and how != "kill":
            return []  # it ends with its caller, who is told by itself
        if active.process is None:
            return self._finish(active, result_of(active, now, "cancelled"), now)
        if active.result is not None or active.asked_to_end:
            return []
        active.asked_to_end = True
        active.phase = Phase.ENDING
        active.deadline = now + GRACE_S
        if how == "interrupt":
            active.next_signal = SIGTERM
            return [Signal(active.process, SIGINT)]
        active.next_signal = None
        return [Signal(active.process, SIGTERM)]

    def _release(self, released: Released, now: float) -> list[Effect]:
        active = self._attempt(released.job_id, released.attempt)
        if active is None or not active.inline:
            return []
        outcome = "failed" if released.failed else "succeeded"
        return self._finish(active, result_of(active, now, outcome), now)

    def end_everything(self, now: float) -> list[Effect]:
        """The worker itself is leaving: TERM now, KILL when the grace is over."""
        effects = _close(self.processes.idle(), now)
        for active in self.runs.values():
            if active.process is not None and not active.asked_to_end:
                active.asked_to_end = active.leaving = True
                active.phase = Phase.ENDING
                active.deadline = now + GRACE_S
                active.next_signal = None
                effects.append(Signal(active.process, SIGTERM))
        return effects

    def sampled(self, level: Level, now: float) -> list[Effect]:
        """Take note of what the device shows; tell the broker what matters."""
        for job_id, used_bytes in level.by_job.items():
            if active := self.runs.get(job_id):
                active.measured.take_use(used_bytes, own=job_id in level.seen)
        for active in self.runs.values():
            if active.began_at is not None:
                active.measured.take_load(level.utilisation, now)
        report = wire.Report(
            level.used_bytes,
            level.foreign_bytes,
            level.idle_bytes,
            level.utilisation,
            tuple(
                Use(one.run.job_id, one.run.attempt, one.measured.used_bytes)
                for one in self.runs.values()
            ),
        )
        if now - self._told_at < HEARTBEAT_S and not self._notable(report):
            return []
        self._told, self._told_at = report, now
        return [Reply(report)]

    def sample_s(self, now: float, cost_s: float) -> float:
        """Say how long after a look at the device the next is due.

        Args:
            cost_s: What a look takes of a core, with all that belongs to it.
        """
        if any(one.run.young and one.ran_s(now) < YOUNG_FOR_S for one in self.runs.values()):
            return min(SAMPLE_S, max(YOUNG_SAMPLE_S, cost_s / COST_PART))
        return SAMPLE_S if self.runs or self.processes else IDLE_SAMPLE_S

    def _notable(self, report: wire.Report) -> bool:
        told = self._told
        if told is None:
            return True
        before = {use.job_id: use.used_bytes for use in told.uses}
        changes = [
            report.foreign_bytes - told.foreign_bytes,
            report.idle_bytes - told.idle_bytes,
            *(use.used_bytes - before.get(use.job_id, 0) for use in report.uses),
        ]
        return any(abs(change) * NOTABLE_PART >= self._total_bytes for change in changes)

    def tick(self, now: float) -> list[Effect]:
        """Take the next harder step where a grace has run out; repeat what is unrecorded."""
        effects: list[Effect] = []
        for active in self.runs.values():
            if active.deadline is not None and now >= active.deadline:
                effects += self._escalate(active, now)
        for process in self.processes.values():
            if process.kill_at is not None and now >= process.kill_at:
                process.kill_at = now + GRACE_S
                effects.append(Kill(process.key))
            elif process.idle_for(now) >= IDLE_S:
                effects += _close([process], now)
        if self.unrecorded and now >= self._repeat_at:
            self._repeat_at = now + REPEAT_S
            results = list(self.unrecorded.values())
            effects += [Reply(wire.Finished(self.epoch, (result,))) for result in results]
        return effects

    def _escalate(self, active: ActiveRun, now: float) -> list[Effect]:
        assert active.process is not None
        active.deadline = now + GRACE_S
        if active.next_signal is not None:
            signum, active.next_signal = active.next_signal, None
            return [Signal(active.process, signum)]
        return [Kill(active.process)]


def _close(processes: Iterable[Process], now: float) -> list[Effect]:
    """Let idle processes end quietly, and not for long."""
    effects: list[Effect] = []
    for process in processes:
        process.kill_at = now + LEAVE_S
        effects.append(Close(process.key))
    return effects
