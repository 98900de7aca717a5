"""Does to the world what the worker's core decided."""

import os
import time
from collections.abc import Sequence
from signal import SIGTERM
from typing import Protocol

from loguru import logger

from grn_zmq.context import Context
from grn_zmq.discovery import shares_pids
from grn_zmq.failpoints import failpoint
from grn_zmq.lifelock import watch_life
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import find_places
from grn_zmq.records import Leased, Run

from . import jobevents
from .broker_link import BrokerLink
from .core import WorkerCore
from .devices.device import FRAMEWORK_DEFAULTS, Device
from .effects import (
    Close,
    Discard,
    Effect,
    Feed,
    FeedTrain,
    Kill,
    Launch,
    Note,
    Reply,
    SetAside,
    Signal,
    TakeBack,
    UnwatchCaller,
    WatchCaller,
)
from .environments import Environments
from .joblogs import JobLogs
from .launcher import LaunchError
from .pool import Pool
from .sampler import Sampler
from .spool import Spool
from .surroundings import device_variables, environment_of, placeholders_of, type_called
from .sweeping import MARK


class Head(Protocol):
    """Whoever is told what came of it."""

    core: WorkerCore

    def do(self, effects: list[Effect]) -> None:
        """Have this done too."""

    def sample(self) -> bool:
        """Look at the device now."""


class Hands:
    """Job processes, callers and messages of one worker."""

    def __init__(
        self,
        head: Head,
        device: Device,
        link: BrokerLink,
        pool: Pool,
        sampler: Sampler,
        spool: Spool,
        logs: JobLogs,
        environments: Environments,
    ) -> None:
        self._head = head
        self._core = head.core
        self._device = device
        self._link = link
        self._pool = pool
        self._sampler = sampler
        self._spool = spool
        self._logs = logs
        self._environments = environments
        self._parcels = find_parcels(os.environ)
        # What no job may have otherwise: the mark it is found by.
        self._fixed = {MARK: spool.incarnation}

    def carry_out(self, effect: Effect) -> None:
        """Do one thing; what was meant for a process that is not there is void."""
        match effect:
            case Reply(message):
                self._link.send(message)
            case Launch(key, context, devices):
                self._launch(key, context, devices)
            case Feed(key, run, function) if key in self._pool:
                self._sampler.begins(key)
                self._logs.begin(run)
                self._pool.feed(
                    key, self._environments.dressed(key, self._job_run(run, function))
                )
                failpoint("worker.fed")
            case FeedTrain(key) if key in self._pool:
                self._feed_train(effect)
            case TakeBack(key):
                self._take_back(effect)
            case Signal(key, signum) if key in self._pool:
                self._pool.signal(key, signum)
                if signum == SIGTERM:
                    failpoint("worker.ending")
            case Kill(key) if key in self._pool:
                self._pool.kill(key)
            case Close(key) if key in self._pool:
                self._pool.close_process(key)
            case WatchCaller(job_id, pid):
                self._watch_caller(job_id, pid)
            case UnwatchCaller(job_id):
                self._pool.unwatch_caller(job_id)
                self._head.sample()  # what its caller keeps is told before the lease goes
            case SetAside(result):
                self._spool.set_aside(result)
            case Discard(token):
                self._parcels.remove(token)
            case Note(text, facts, level):
                logger.bind(facts=facts).log(level.upper(), text)

    def _feed_train(self, feed: FeedTrain) -> None:
        key, calls = feed.process, feed.calls
        if not calls[0].place:
            self._sampler.begins(key)
            self._logs.begin(feed.run)
        packet = jobevents.Packet(
            train=feed.train,
            slot=feed.slot,
            first=calls[0].place,
            job_ids=[one.job_id for one in calls],
            attempts=[one.attempt for one in calls],
            numbers=[one.number for one in calls],
            payloads=[one.payload for one in calls],
            marks=self._spool.marks.slot(feed.slot),
            late=self._spool.late_files,
        )
        self._pool.feed_train(key, self._job_run(feed.run, feed.function), packet)
        failpoint("worker.fed")

    def _take_back(self, effect: TakeBack) -> None:
        now, key = time.monotonic(), effect.process
        if self._core.trains.is_over(key, effect.packet):
            return  # its calls have ended meanwhile, and others were fed
        if effect.if_begun and self._spool.marks.read(effect.slot) < effect.if_begun:
            self._core.trains.not_begun(key, now)
            return
        self._head.do(self._core.trains.taken_back(key, self._pool.take_back(key), now))

    def _watch_caller(self, job_id: str, pid: int) -> None:
        several = any(len(one.run.devices) > 1 for one in self._core.runs.values())
        if several or len(self._core.runs) > 1:
            self._head.sample()  # its peak until now is of the jobs it is part of
        places = find_places(os.environ)
        pid = pid if shares_pids(places) else 0
        life = None if pid else watch_life(places.life(self._core.runs[job_id].run.session))
        if not pid and life is None:
            self._core.caller_unseen(job_id)
        if self._pool.watch_caller(job_id, pid, life):
            self._head.sample()  # what it holds already is not the job's
        else:
            self._head.do(self._core.caller_gone(job_id, time.monotonic()))

    def _launch(self, key: int, packed: bytes, devices: Sequence[Leased]) -> None:
        try:
            context = Context.from_bytes(packed)
            fixed = {**device_variables(devices), **self._fixed}
            environment = {**self._defaults(context), **fixed}
            job_type = ""
            if active := self._core.run_in(key):
                self._environments.enter(key, active.run, context, self._fixed)
                job_type = type_called(active.run)
            self._pool.launch(key, context, environment, job_type)
        except (LaunchError, ValueError) as error:
            self._environments.leave(key, by_force=False)
            self._head.do(self._core.launch_failed(key, str(error), time.monotonic()))

    def _defaults(self, context: Context) -> dict[str, str]:
        """What tames preallocating frameworks, unless the user chose otherwise."""
        if self._device.info.kind != "nvml":
            return {}
        return {
            name: value
            for name, value in FRAMEWORK_DEFAULTS.items()
            if name not in context.environment
        }

    def _job_run(self, run: Run, function: bytes | None) -> jobevents.Run:
        assert run.kind in ("call", "command")
        values = placeholders_of(run)
        return jobevents.Run(
            job_id=run.job_id,
            attempt=run.attempt,
            kind="command" if run.kind == "command" else "call",
            function=run.function,
            function_blob=function or b"",
            content=run.payload,
            stand_in=run.stand_in,
            environment=environment_of(run, values, self._fixed),
            placeholders=values,
            stdin=run.stdin,
            on_host=self._core.on_host,
            total_bytes=self._device.info.total_bytes,
            cap_bytes=self._cap_bytes(run) if run.enforce else 0,
            token=run.token,
            parcels=(str(self._parcels.shm), str(self._parcels.disk)),
            session=run.session,
            detached=run.detached,
            young=run.young,
            late=str(self._spool.late_file(run.job_id, run.attempt)),
            queue_prefix=run.prefix,
        )

    def _cap_bytes(self, run: Run) -> int:
        """What it may have of each device; a process has host memory of all of them at once."""
        if self._core.on_host:
            return run.lease_bytes * len(run.devices)
        return run.lease_bytes if run.devices else 0
