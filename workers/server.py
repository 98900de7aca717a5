"""The worker's shell: one device, one poll loop, no user code and no decisions."""

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire
from grn_zmq.environments.catalogue import Catalogue
from grn_zmq.errors import GrnError
from grn_zmq.failpoints import failpoint
from grn_zmq.paths import logs_directory
from grn_zmq.records import DeviceFacts

from .broker_link import BrokerLink
from .core import WorkerCore
from .devices.device import Device, DeviceInfo
from .ears import Ears
from .effects import Effect, Keep, Reply
from .ending import LEAVING_GRACE_S, close
from .environments import Environments
from .farewells import Farewells
from .hands import Hands
from .joblogs import JobLogs
from .launcher import Launcher
from .pool import Pool
from .pressure import Pressure
from .sampler import Sampler
from .spool import Spool
from .spoollog import FinishRecord, ReturnedRecord, StartRecord, TrainRecord

# After a refusal, which may be over soon, and where an answer is long in coming.
GREET_AGAIN_S: Final = 0.5
UNANSWERED_S: Final = 10.0
RETRY_S: Final = 0.01
# Short calls that follow one another answer faster than one by one can be told.
GATHER_S: Final = 0.001
SPOOL_AGAIN_S: Final = 1.0
# After the grace of the jobs themselves, what is left is killed.
LEAVE_S: Final = 2.0
# For the broker to take over the last results; what it has not stays in the spool.
HAND_OVER_S: Final = 1.5

NO_BROKER_STATUS: Final = 3


class BrokerGone(GrnError):
    """There is no broker that this worker could work for."""


class WorkerServer:
    """Feeds the core with messages, process events, samples and time."""

    def __init__(
        self,
        device: Device,
        max_jobs: int | None,
        find: Callable[[], str | None],
        spool: Spool,
        launcher: Launcher,
        environments: Environments | None = None,
    ) -> None:
        """Be ready to serve.

        Args:
            find: Gives the address for workers of the broker that lives, if one does.
            environments: Those that jobs can have here; None for none.
        """
        self._device = device
        self._max_jobs = max_jobs
        self._environments = environments or Environments(Catalogue(), spool.incarnation)
        info = device.info
        self._facts = facts_of(info)
        self._spool = spool
        self._pressure = Pressure()
        self._pool = Pool(launcher)
        self._farewells = Farewells(launcher.known_pids)
        self._link = BrokerLink(find)
        self.core = WorkerCore(
            on_host=info.kind == "host", total_bytes=info.total_bytes, left=spool.left
        )
        self._sampler = Sampler(device, self._pool, self.core)
        self._logs = JobLogs(logs_directory(os.environ))
        self._hands = Hands(
            self,
            device,
            self._link,
            self._pool,
            self._sampler,
            spool,
            self._logs,
            self._environments,
        )
        self._ears = Ears(
            self,
            self._link,
            self._pool,
            self._sampler,
            self._logs,
            self._environments,
            self._farewells,
        )
        self._effects: list[Effect] = []
        self._greet_at = float("inf")
        self._sampled_at = 0.0
        self._sample_cost_s = 0.0
        self._spool_again_at = 0.0
        self._stopping = self._for_good = self._leaving = False
        if not spool.writable:
            self.core.not_kept(spool.why)

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

    def run(self) -> int:
        """Serve until a signal, or until the broker says to leave; then end all jobs.

        Returns:
            The exit status: NO_BROKER_STATUS if no other worker is to follow.

        Raises:
            BrokerGone: The broker speaks another protocol.
        """
        try:
            while not self._stopping and not self._for_good:
                self._turn()
        finally:
            self._leave()
        return NO_BROKER_STATUS if self._for_good else 0

    def _leave(self) -> None:
        logger.info("ending jobs")
        self._leaving = True
        try:
            self._end_jobs()
            deadline = time.monotonic() + HAND_OVER_S
            while self._to_hand_over() and time.monotonic() < deadline:
                self._turn()
        finally:
            self._pool.close()
            self._logs.close()
            self._link.close()
            self._spool.close()
            self._sampler.close()
            self._device.close()

    def _end_jobs(self) -> None:
        capped = self._stopping
        graces = [one.run.grace_s for one in self.core.runs.values()]
        most_s = max(graces, default=0.0) if self._for_good else LEAVING_GRACE_S
        self.do(self.core.end_everything(time.monotonic(), most_s))
        self._settle()
        failpoint("worker.leaving")
        deadline = time.monotonic() + most_s + LEAVE_S
        while (len(self._pool) or len(self._farewells)) and time.monotonic() < deadline:
            self._turn()
            if self._stopping and not capped:  # whoever sent a signal does not wait so long
                capped = True
                self.do(self.core.end_everything(time.monotonic(), LEAVING_GRACE_S))
                deadline = min(deadline, time.monotonic() + LEAVING_GRACE_S + LEAVE_S)

    def _to_hand_over(self) -> bool:
        return bool(self.core.unrecorded) and self._link.open

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        cpu_s, quiet = time.thread_time(), True
        self._wait()
        self._see_to_link()
        for message in self._link.received():
            quiet = False
            self._on_message(message)
        for event in self._pool.events(outputs=not self._link.full):
            quiet = False
            self._ears.hear(event)
        now = time.monotonic()
        self._farewells.look(now)
        if now >= self._sample_at(now):
            self.sample()
            if quiet:  # all of this turn was for the sample
                self._sample_cost_s = time.thread_time() - cpu_s
        if self.core.declining and now >= self._spool_again_at:
            self._spool_again_at = now + SPOOL_AGAIN_S
            if self._spool.writable or self._spool.retry():
                self.core.can_keep()
        self.do(self.core.tick(now))
        self._settle()
        self._link.flush()

    def _see_to_link(self) -> None:
        news = self._link.look()
        if news is False:
            logger.warning("the broker is gone; jobs go on")
            self.core.fence.close()
            self.do(self.core.trains.recall())  # a greeting is to be short
            self._greet_at = float("inf")
        if news or time.monotonic() >= self._greet_at:
            self._greet()

    def _sample_at(self, now: float) -> float:
        return self._sampled_at + self.core.sample_s(now, self._sample_cost_s)

    def _wait(self) -> None:
        """Wait until there is something to do."""
        if self._ears.values and self.core.trains.at_work:
            time.sleep(GATHER_S)
        self._ears.values = 0
        poller = zmq.Poller()
        for socket in (self._link.socket, self._link.monitor):
            if socket is not None:
                poller.register(socket, zmq.POLLIN)
        if not self._link.full:
            poller.register(self._pool.fileno(), zmq.POLLIN)
        for pidfd in self._farewells.filenos():
            poller.register(pidfd, zmq.POLLIN)
        now = time.monotonic()
        next_at = min(self._sample_at(now), self._greet_at, self.core.trains.next_at())
        wait_s = min(max(0.0, next_at - now), self._link.wait_s(now))
        if not self._link.idle:
            wait_s = min(wait_s, RETRY_S)
        poller.poll(math.ceil(wait_s * 1000))

    def _greet(self) -> None:
        failpoint("worker.greet")
        self._uncouple()
        self._greet_at = time.monotonic() + UNANSWERED_S
        greeting, inventory = self.core.greet()
        self._link.greet(
            wire.Greet(
                protocol=wire.PROTOCOL,
                worker=self._device.info.uuid,
                incarnation=self._spool.incarnation,
                boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                pid=os.getpid(),
                device=self._facts,
                max_jobs=self._max_jobs,
                inventory=inventory,
                greeting=greeting,
                environments=self._environments.offers,
            )
        )

    def _uncouple(self) -> None:
        """Let nothing begin that the greeting does not list, and list all that has."""
        if not self.core.trains.of_process:
            return
        self.do(self.core.trains.recall())
        self._settle()
        for key in list(self.core.trains.of_process):
            for event in self._pool.answers(key):
                self._ears.hear((key, event))
        self._settle()

    def _on_message(self, message: wire.Message) -> None:
        match message:
            case wire.Refused():
                self._on_refused(message)
                return
            case wire.Leave():
                if self.core.fence.welcomed:
                    logger.info("the broker says to leave")
                    self._for_good = True
                return
            case wire.Release():
                self.sample()  # the last look while the memory of an inline job is its own
            case wire.Assign():
                failpoint("worker.assigned")
            case wire.Recorded():
                failpoint("worker.recorded")
        self.do(self.core.handle(message, time.monotonic()))
        if isinstance(message, wire.Welcome) and self.core.fence.welcomed:
            self._on_welcomed()

    def _on_welcomed(self) -> None:
        if not self._link.open:
            self._link.open = True
            self._greet_at = float("inf")
            self._sampled_at = 0.0
            failpoint("worker.welcomed")
            logger.info("broker found")

    def _on_refused(self, message: wire.Refused) -> None:
        logger.bind(facts={"why": message.text}).debug("broker refused")
        if message.reason == "version" and not self._leaving:
            raise BrokerGone(message.text)
        if not self.core.fence.welcomed:  # a device still taken becomes free soon
            self._greet_at = time.monotonic() + GREET_AGAIN_S
        elif message.reason == "greet-first":
            self._greet()

    def sample(self) -> bool:
        """Look at the device, and say whether it could be read."""
        self._sampled_at = time.monotonic()
        for found in self._sampler.look_elsewhere():
            self.core.seen_elsewhere(found)
        level = self._sampler.look()
        if level is not None:
            self.do(self.core.sampled(level, time.monotonic()))
        if self._pressure.high(self._sampled_at):
            self.do(close(self.core.processes.idle(), self._sampled_at))
        return level is not None

    def do(self, effects: list[Effect]) -> None:
        """Have this done at the end of the turn, together with all else."""
        self._effects += effects

    def _settle(self) -> None:
        """Write down what has to be, at once, and only then do the rest."""
        while self._effects:
            effects, self._effects = self._effects, []
            records = [one.record for one in effects if isinstance(one, Keep)]
            starts = any(isinstance(one, StartRecord | TrainRecord) for one in records)
            finishes = [
                one for one in records if isinstance(one, FinishRecord | ReturnedRecord)
            ]
            for finish in finishes:
                if isinstance(finish, FinishRecord):
                    self._logs.end(finish.result.job_id)
            if finishes:
                failpoint("worker.result")
            kept = not records or self._spool.write(records)
            if finishes:
                failpoint("worker.finished-written")
            for effect in effects:
                self._hands.carry_out(effect)
            if finishes and any(isinstance(one, Reply) for one in effects):
                failpoint("worker.finished-sent")
            if starts and kept:
                failpoint("worker.started-written")
                self.do(self.core.kept(time.monotonic()))
            elif not kept:
                self.do(self.core.not_kept(self._spool.why))


def facts_of(info: DeviceInfo) -> DeviceFacts:
    """Give what the broker is told of a device."""
    return DeviceFacts(
        index=info.index,
        name=info.name,
        uuid=info.uuid,
        kind=info.kind,
        device_class=info.device_class,
        total_bytes=info.total_bytes,
        display=info.display,
        links=dict(info.links),
    )
