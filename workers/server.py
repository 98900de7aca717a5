"""The worker's shell: one device, one poll loop, no user code and no decisions."""

import math
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire
from grn_zmq.context import Context
from grn_zmq.errors import GrnError
from grn_zmq.records import DeviceFacts, Piece, Run

from . import jobprocess
from .broker_link import BrokerLife, BrokerLink
from .core import WorkerCore
from .devices.callers import Callers
from .devices.device import FRAMEWORK_DEFAULTS, Device, DeviceUnreadable, Tree
from .devices.kills import KernelKills
from .devices.memory import kernel_kills
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
from .launcher import ExecLauncher, LaunchError
from .pool import Pool

GREET_AGAIN_S: Final = 0.5
RETRY_S: Final = 0.01
# A job process may be used again if it kept no more than this: a GPU context is never kept.
KEPT_BYTES: Final = {"host": 32 << 20, "nvml": 0}
# After the grace of the jobs themselves, what is left is killed.
LEAVE_S: Final = 8.0

NO_BROKER_STATUS: Final = 3


class BrokerGone(GrnError):
    """The broker died; without it nobody knows the jobs that run here."""


class WorkerServer:
    """Feeds the core with messages, process events, samples and time."""

    def __init__(self, device: Device, max_jobs: int | None, address: str) -> None:
        self._device = device
        self._max_jobs = max_jobs
        self._incarnation = uuid.uuid4().hex
        info = device.info
        self._facts = DeviceFacts(
            info.index, info.name, info.uuid, info.kind, info.device_class, info.total_bytes
        )
        self._pool = Pool(ExecLauncher())
        self._callers = Callers()
        self._link = BrokerLink(address)
        self._broker = BrokerLife()
        label = f"{info.kind}:{info.index}"
        self.core = WorkerCore(label, device.environment(), info.total_bytes)
        self._welcomed = False
        self._greet_at = 0.0
        self._sampled_at = 0.0
        self._sample_cost_s = 0.0
        self._readable = True
        self._kernel_kills = KernelKills(kernel_kills())
        self._kills_before: dict[int, int] = {}
        self._stopping = False

    def stop_on(self, *signals: signal.Signals) -> None:
        """Let these signals end the worker, its jobs first."""
        wakeup, signalled = os.pipe()
        os.set_blocking(signalled, False)
        self._pool.add_wakeup(wakeup)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        for signum in signals:
            signal.signal(signum, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def run(self) -> None:
        """Serve until a signal; then end all jobs.

        Raises:
            BrokerGone: The broker died first.
        """
        try:
            while not self._stopping:
                self._turn()
            logger.info("ending jobs")
        finally:
            self._leave()

    def _leave(self) -> None:
        deadline = time.monotonic() + LEAVE_S
        try:
            self._carry_out(self.core.end_everything(time.monotonic()))
            while len(self._pool) and time.monotonic() < deadline:
                self._turn(leaving=True)
        finally:
            self._pool.close()
            self._link.flush()
            self._link.close()
            self._broker.close()
            self._device.close()

    def _turn(self, leaving: bool = False) -> None:
        """Wait for something to happen, and see to it."""
        cpu_s, quiet = time.thread_time(), True
        if self._wait(leaving):
            raise BrokerGone("the broker is gone")
        for message in self._link.received():
            quiet = False
            self._on_message(message)
        if not self._link.full:
            for event in self._pool.events():
                quiet = False
                self._on_event(event)
        now = time.monotonic()
        if self._welcomed and now >= self._sample_at(now):
            self._sample()
            if quiet:  # all of this turn was for the sample
                self._sample_cost_s = time.thread_time() - cpu_s
        if not self._welcomed and now >= self._greet_at:
            self._greet_at = now + GREET_AGAIN_S
            if not leaving:
                self._greet()
        self._carry_out(self.core.tick(now))
        self._link.flush()

    def _sample_at(self, now: float) -> float:
        return self._sampled_at + self.core.sample_s(now, self._sample_cost_s)

    def _wait(self, leaving: bool) -> bool:
        """Wait until there is something to do; True if the broker is found dead."""
        poller = zmq.Poller()
        poller.register(self._link.socket, zmq.POLLIN)
        if self._broker.fileno() >= 0 and not leaving:
            poller.register(self._broker.fileno(), zmq.POLLIN)
        if not self._link.full:
            poller.register(self._pool.fileno(), zmq.POLLIN)
        now = time.monotonic()
        next_at = self._sample_at(now) if self._welcomed else self._greet_at
        wait_s = max(0.0, next_at - now) if self._link.idle else RETRY_S
        return self._broker.fileno() in dict(poller.poll(math.ceil(wait_s * 1000)))

    def _greet(self) -> None:
        self._link.send(
            wire.Greet(
                protocol=wire.PROTOCOL,
                worker=self._device.info.uuid,
                incarnation=self._incarnation,
                boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                pid=os.getpid(),
                device=self._facts,
                max_jobs=self._max_jobs,
                inventory=self.core.inventory,
            )
        )

    def _on_message(self, message: wire.Message) -> None:
        if isinstance(message, wire.Welcome):
            self._welcomed = True
            self._sampled_at = 0.0
            if not self._broker.watch(message.pid):
                raise BrokerGone("the broker is gone")
            logger.info("broker found")
        if isinstance(message, wire.Refused):
            self._on_refused(message)
            return
        if isinstance(message, wire.Release):
            self._sample()  # the last look while the memory of an inline job is its own
        self._carry_out(self.core.handle(message, time.monotonic()))

    def _on_refused(self, message: wire.Refused) -> None:
        if message.reason == "version":
            raise BrokerGone(message.text)
        self._welcomed = False  # greet (again); a device still taken becomes free soon
        logger.bind(facts={"why": message.text}).debug("broker refused")

    def _on_event(self, event: tuple[int, jobprocess.Event] | str) -> None:
        now = time.monotonic()
        if isinstance(event, str):
            self._carry_out(self.core.caller_gone(event, now))
            return
        key, what = event
        match what:
            case jobprocess.Output(stream, data):
                self._output(key, stream, data)
            case jobprocess.Outcome():
                self._on_outcome(key, what)
            case jobprocess.Exited():
                self._on_exited(key, what)
            case jobprocess.Ready():
                self._accounted_bytes(key)  # of processes that had this pid before

    def _output(self, key: int, stream: str, data: bytes) -> None:
        process = self.core.processes.get(key)
        active = self.core.runs.get(process.job_id) if process else None
        if active is not None:
            run = active.run
            self._link.say(Piece(run.job_id, run.attempt, stream, data))
            if stream == "stderr":
                active.hear(data)

    def _on_outcome(self, key: int, outcome: jobprocess.Outcome) -> None:
        looked = self._sample()  # the last look while its memory is still there
        of_device = looked and self._device.info.kind == "nvml"
        returned = Returned(
            outcome="succeeded" if outcome.outcome == "succeeded" else "failed",
            exit_status=outcome.exit_status,
            error_type="JobExited" if outcome.outcome == "exited" else outcome.error_type,
            error_text=outcome.error_text
            or (f"exited with status {outcome.exit_status}" if outcome.exit_status else ""),
            payload=outcome.body,
            reusable=outcome.clean and self._kept_little(key),
            asked_bytes=outcome.asked_bytes,
            counters=outcome.counters if of_device else None,
            peak_bytes=self._accounted_bytes(key),
        )
        self._carry_out(self.core.returned(key, returned, time.monotonic()))
        if (process := self.core.processes.get(key)) and process.idle_since is not None:
            self._pool.reset_peak(key)  # what it once had is not what it keeps

    def _accounted_bytes(self, key: int) -> int:
        tree = self._pool.tree(key)
        return 0 if tree is None else self._device.accounted_bytes(tree)

    def _kept_little(self, key: int) -> bool:
        tree = self._pool.tree(key)
        if tree is None:
            return False
        try:
            return self._device.held_bytes(tree) <= KEPT_BYTES[self._device.info.kind]
        except DeviceUnreadable:
            return False

    def _on_exited(self, key: int, exited: jobprocess.Exited) -> None:
        peak_bytes = self._accounted_bytes(key)
        if self.core.on_host:
            peak_bytes = max(0, exited.max_rss_bytes - self._pool.baseline_bytes(key))
        now = time.monotonic()
        kills_before = max(self._kills_before.pop(key, 0), self._kernel_kills.count_before(now))
        process = self.core.processes.get(key)
        self._pool.destroy(key)
        self._sample()  # tell the broker what became free before it decides
        now = time.monotonic()
        if process and process.job_id and exited.error_text:
            self._carry_out(self.core.launch_failed(key, exited.error_text, now))
        else:
            kernel_oom = self.core.on_host and kernel_kills() > kills_before
            gone = Gone(exited.status, exited.signal, peak_bytes, kernel_oom)
            self._carry_out(self.core.gone(key, gone, now))

    def _sample(self) -> bool:
        """Look at the device; after a look that fails the next one comes.

        While it cannot be read nothing is reported, so that the broker, hearing nothing,
        gives it no more jobs.

        Returns:
            Whether it could be read.
        """
        self._sampled_at = time.monotonic()
        trees = self._trees()
        try:
            sample = self._device.sample(trees)
            if self._device.info.kind == "nvml":  # host memory has baselines of its own
                sample = self._callers.divide(sample, trees)
            else:
                self._kernel_kills.take(kernel_kills(), time.monotonic())
        except DeviceUnreadable as error:
            if self._readable:
                logger.bind(facts={"why": str(error)}).warning("could not read the device")
            self._readable = False
            return False
        if not self._readable:
            logger.info("the device can be read again")
        self._readable = True
        by_job = {key: used for key, used in sample.by_tree.items() if key in self.core.runs}
        idle = sum(sample.by_tree.values()) - sum(by_job.values())
        level = Level(
            sample.used_bytes,
            sample.foreign_bytes,
            idle,
            sample.utilisation,
            by_job,
            sample.seen,
        )
        self._carry_out(self.core.sampled(level, time.monotonic()))
        return True

    def _trees(self) -> dict[str, Tree]:
        trees: dict[str, Tree] = {}
        for key, process in self.core.processes.items():
            # One that is to be launched, or has just ended, has no tree.
            if key in self._pool and (tree := self._pool.tree(key)):
                trees[process.job_id or f"idle:{key}"] = tree
        for job_id in self.core.runs:
            if tree := self._pool.caller_tree(job_id):
                trees[job_id] = tree
        return trees

    def _carry_out(self, effects: list[Effect]) -> None:
        """Do what the core decided; what was meant for a process that is not there is void."""
        for effect in effects:
            match effect:
                case Reply(message):
                    self._link.send(message)
                case Launch(key, context):
                    self._launch(key, context)
                case Feed(key, run, function) if key in self._pool:
                    self._kills_before[key] = self._kernel_kills.count
                    self._pool.feed(key, self._job_run(run, function))
                case Signal(key, signum) if key in self._pool:
                    self._pool.signal(key, signum)
                case Kill(key) if key in self._pool:
                    self._pool.kill(key)
                case Close(key) if key in self._pool:
                    self._pool.close_process(key)
                case WatchCaller(job_id, pid):
                    self._watch_caller(job_id, pid)
                case UnwatchCaller(job_id):
                    self._pool.unwatch_caller(job_id)
                    self._sample()  # what its caller keeps is told before the lease goes
                case Note(text, facts, level):
                    logger.bind(facts=facts).log(level.upper(), text)

    def _watch_caller(self, job_id: str, pid: int) -> None:
        if len(self.core.runs) > 1:
            self._sample()  # its peak until now is of the jobs it is part of
        if self._pool.watch_caller(job_id, pid):
            self._sample()  # what it holds already is not the job's
        else:
            self._carry_out(self.core.caller_gone(job_id, time.monotonic()))

    def _launch(self, key: int, packed: bytes) -> None:
        try:
            context = Context.from_bytes(packed)
            environment = {
                **self._defaults(context),
                **self._device.environment(),
                "GRN_WORKER": self._incarnation,
            }
            self._pool.launch(key, context, environment)
        except (LaunchError, ValueError) as error:
            self._carry_out(self.core.launch_failed(key, str(error), time.monotonic()))

    def _defaults(self, context: Context) -> dict[str, str]:
        """What tames preallocating frameworks, unless the user chose otherwise."""
        if self._device.info.kind != "nvml":
            return {}
        return {
            name: value
            for name, value in FRAMEWORK_DEFAULTS.items()
            if name not in context.environment
        }

    def _job_run(self, run: Run, function: bytes | None) -> jobprocess.Run:
        assert run.kind in ("call", "command")
        return jobprocess.Run(
            job_id=run.job_id,
            attempt=run.attempt,
            kind="command" if run.kind == "command" else "call",
            function=run.function,
            function_blob=function or b"",
            content=run.payload,
            stand_in=run.stand_in,
            environment={"GRN_JOB_ID": run.job_id, "GRN_ATTEMPT": str(run.attempt)},
            stdin=run.stdin,
            on_host=self.core.on_host,
            total_bytes=self._device.info.total_bytes,
            cap_bytes=run.lease_bytes if run.enforce else 0,
        )
