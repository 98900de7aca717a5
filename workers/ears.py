"""Tells the worker's core what happens to job processes and callers."""

import time
from dataclasses import replace
from functools import partial

from grn_zmq.peaks import NEGLIGIBLE_BYTES
from grn_zmq.records import Piece

from . import jobevents
from .broker_link import BrokerLink
from .effects import Reply
from .environments import Environments
from .events import Gone, Returned
from .farewells import Farewells
from .hands import Head
from .joblogs import JobLogs
from .pool import Pool
from .results import plain_return
from .runs import ActiveRun
from .sampler import KEPT_BYTES, Sampler


class Ears:
    """What job processes of one worker say, print and come to."""

    def __init__(
        self,
        head: Head,
        link: BrokerLink,
        pool: Pool,
        sampler: Sampler,
        logs: JobLogs,
        environments: Environments,
        farewells: Farewells,
    ) -> None:
        self._head = head
        self._core = head.core
        self._link = link
        self._pool = pool
        self._sampler = sampler
        self._logs = logs
        self._environments = environments
        self._farewells = farewells
        # How many values of trains were heard since this was set to 0.
        self.values = 0

    def hear(self, event: tuple[int, jobevents.Event] | str) -> None:
        """Take one event: of the job process with this key, or the job of a gone caller."""
        if isinstance(event, str):
            self._head.do(self._core.caller_gone(event, time.monotonic()))
            return
        key, what = event
        match what:
            case jobevents.Output(stream, data):
                self._output(key, stream, data)
            case jobevents.Outcome():
                self._on_outcome(key, what)
            case jobevents.Exited():
                self._on_exited(key, what)
            case jobevents.Values(run_s, payloads):
                self._on_values(key, run_s, payloads)
            case jobevents.NotBegun(how_many):
                self._head.do(
                    self._core.trains.taken_back(key, how_many, time.monotonic(), over=True)
                )
            case jobevents.Ready():
                self._core.ready(key, time.monotonic())
                self._sampler.accounted_bytes(key)  # of processes that had this pid before

    def _output(self, key: int, stream: str, data: bytes) -> None:
        if active := self._core.run_in(key):
            run = active.run
            if not active.told:
                self._tell_start(active)
            self._link.say(Piece(run.job_id, run.attempt, stream, data))
            self._logs.write(run.job_id, stream, data)
            active.hear(data, stream)

    def _tell_start(self, active: ActiveRun) -> None:
        """One that follows others prints something: that it began is told before that."""
        for effect in self._core.trains.told(active, time.monotonic()):
            if isinstance(effect, Reply):
                self._link.send(effect.message)
        self._logs.begin(active.run)

    def _on_values(self, key: int, run_s: list[float], payloads: list[bytes]) -> None:
        self.values += len(payloads)
        kept_little = True
        if self._core.trains.is_ending(key, len(payloads)):
            self._head.sample()  # what all of them had at most is seen at their end too
        if self._core.trains.is_pausing(key, len(payloads)):
            kept_little = self._sampler.kept_little(key)
        if not kept_little:
            run_s, payloads, last = run_s[:-1], payloads[:-1], payloads[-1]
        if payloads:
            self._head.do(self._core.trains.values(key, run_s, payloads, time.monotonic()))
        if not kept_little:
            returned = replace(plain_return(last), reusable=False)
            self._head.do(self._core.returned(key, returned, time.monotonic()))
        self._if_idle(key)

    def _took_nothing(self, key: int, outcome: jobevents.Outcome) -> bool:
        """Whether a run of a known type left host memory as it was: then that is its peak."""
        active = self._core.run_in(key)
        if active is None or active.run.young or not self._core.on_host:
            return False
        if self._pool.is_forked(key):
            return False  # pages that it copied of those it shares are in no counter of its own
        kept_bytes = outcome.peak_bytes - self._pool.baseline_bytes(key)
        grown = outcome.peak_bytes - outcome.before_bytes > NEGLIGIBLE_BYTES
        if grown or not (outcome.clean and outcome.alone) or kept_bytes > KEPT_BYTES["host"]:
            return False
        if devices := len(active.run.devices):
            active.measured.take_use(max(0, kept_bytes) // devices, own=True)
        return True

    def _if_idle(self, key: int) -> None:
        if (process := self._core.processes.get(key)) and process.idle_since is not None:
            self._pool.reset_peak(key)  # what it once had is not what it keeps

    def _on_outcome(self, key: int, outcome: jobevents.Outcome) -> None:
        if outcome.clean and self._core.trains.goes_on(key):
            self._head.do(self._core.returned(key, returned_of(outcome), time.monotonic()))
            return
        if self._took_nothing(key, outcome):
            self._pool.keeps(key, outcome.kept_bytes)
            self._head.do(self._core.returned(key, returned_of(outcome), time.monotonic()))
            return
        looked = self._head.sample()  # the last look while its memory is still there
        of_device = looked and not self._core.on_host
        self._pool.keeps(key, outcome.kept_bytes)
        returned = replace(
            returned_of(outcome),
            reusable=outcome.clean
            and self._pool.is_alone(key)
            and self._sampler.kept_little(key),
            counters=outcome.counters if of_device else None,
            peak_bytes=self._sampler.accounted_bytes(key),
        )
        self._head.do(self._core.returned(key, returned, time.monotonic()))
        self._if_idle(key)

    def _on_exited(self, key: int, exited: jobevents.Exited) -> None:
        gone = self._sampler.gone(key, exited)
        self._pool.destroy(key)
        active = self._core.run_in(key)
        answered = active is not None and active.result is not None
        farewell = self._environments.leave(key, by_force=exited.status != 0 and not answered)
        then = partial(self._on_gone, key, exited, gone)
        self._farewells.begin(farewell, time.monotonic(), then)

    def _on_gone(self, key: int, exited: jobevents.Exited, gone: Gone) -> None:
        process = self._core.processes.get(key)
        self._head.sample()  # tell the broker what became free before it decides
        now = time.monotonic()
        if process and process.job_id and exited.error_text:
            self._head.do(self._core.launch_failed(key, exited.error_text, now))
        else:
            self._head.do(self._core.gone(key, gone, now))


def returned_of(outcome: jobevents.Outcome) -> Returned:
    """Give what a job process answered as the core takes it."""
    status = f"exited with status {outcome.exit_status}" if outcome.exit_status else ""
    return Returned(
        outcome="succeeded" if outcome.outcome == "succeeded" else "failed",
        exit_status=outcome.exit_status,
        error_type="JobExited" if outcome.outcome == "exited" else outcome.error_type,
        error_text=outcome.error_text or status,
        payload=outcome.body,
        reusable=outcome.clean,
        asked_bytes=outcome.asked_bytes,
        error_bases=outcome.error_bases,
        token=outcome.token,
    )
