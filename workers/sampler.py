"""What the device shows of the jobs that run on it: looks, peaks and what processes keep."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from loguru import logger

from grn_zmq.records import Leased

from . import jobevents
from .core import WorkerCore
from .devices.callers import Callers
from .devices.choose import open_device
from .devices.device import Device, DeviceUnreadable, Sample, Tree
from .devices.kills import KernelKills
from .devices.memory import kernel_kills
from .events import Elsewhere, Gone, Level
from .guests import Guests
from .pool import Pool

# A job process may be used again if it kept no more than this: a GPU context is never kept.
KEPT_BYTES: Final = {"host": 32 << 20, "nvml": 0}


class Sampler:
    """Reads one device for one worker, and the others that its jobs have besides."""

    def __init__(self, device: Device, pool: Pool, core: WorkerCore) -> None:
        self._device = device
        self._pool = pool
        self._core = core
        self._callers = Callers()
        self._guests = Guests(open_device)
        self._readable = True
        self._kernel_kills = KernelKills(kernel_kills())
        self._kills_before: dict[int, int] = {}

    def look(self) -> Level | None:
        """Look at the device; None if it cannot be read, but then the next look comes.

        While it cannot be read nothing is reported, so that the broker, hearing nothing,
        gives it no more jobs.
        """
        trees = self._trees()
        here = {key: tree for key, tree in trees.items() if tree.spread}
        try:
            sample = self._device.sample(here)
            if self._device.info.kind == "nvml":  # host memory has baselines of its own
                sample = self._callers.divide(sample, here)
            else:
                self._kernel_kills.take(kernel_kills(), time.monotonic())
        except DeviceUnreadable as error:
            if self._readable:
                logger.bind(facts={"why": str(error)}).warning("could not read the device")
            self._readable = False
            return None
        if not self._readable:
            logger.info("the device can be read again")
        self._readable = True
        return self._level(sample, trees)

    def look_elsewhere(self, without: str = "") -> list[Elsewhere]:
        """Look at the other devices that jobs have; on host memory there is nothing to see.

        Args:
            without: A job that is there but has not begun.
        """
        self._open_guests()
        if not self._guests:
            return []
        jobs = self._core.runs
        by_device: dict[str, dict[str, Tree]] = {}
        for key, tree in self._trees().items():
            leased = jobs[key].run.devices if key in jobs and key != without else ()
            for one in leased[1:]:
                by_device.setdefault(one.uuid, {})[key] = tree
        return self._guests.look(by_device)

    def _open_guests(self) -> None:
        if not self._core.on_host:
            begun = [one for one in self._core.runs.values() if one.began_at is not None]
            wanted = [other for one in begun for other in one.run.devices[1:]]
            self._guests.keep(wanted, time.monotonic())

    def _level(self, sample: Sample, trees: Mapping[str, Tree]) -> Level:
        by_job = {key: used for key, used in sample.by_tree.items() if key in self._core.runs}
        pids = {key: tree.main_pid for key, tree in trees.items() if key in self._core.runs}
        processes, owners = sample.processes, sample.owners
        if self._core.on_host:  # what strangers have of it cannot be told apart
            processes = {pids[key]: used for key, used in by_job.items()}
            owners = {pids[key]: key for key in by_job}
        return Level(
            sample.used_bytes,
            sample.foreign_bytes,
            sum(sample.by_tree.values()) - sum(by_job.values()),
            sample.utilisation,
            by_job,
            sample.seen,
            sample.temperature_c,
            pids,
            processes,
            owners,
        )

    def _trees(self) -> dict[str, Tree]:
        trees: dict[str, Tree] = {}
        for key, process in self._core.processes.items():
            if key not in self._pool:
                continue  # it is to be launched, or has just ended
            # A GPU has no baselines, and whoever is not listed would pass for a stranger.
            if tree := self._pool.tree(key, with_baseline=self._core.on_host):
                spread = len(process.devices)
                trees[process.job_id or f"idle:{key}"] = replace(tree, spread=spread)
        for job_id, active in self._core.runs.items():
            if tree := self._pool.caller_tree(job_id):
                trees[job_id] = replace(tree, spread=len(active.run.devices))
        return trees

    def begins(self, key: int) -> None:
        """A run is about to be fed to this process."""
        self.look_elsewhere(without=self._core.processes[key].job_id)  # what was there before
        self._kills_before[key] = self._kernel_kills.count

    def gone(self, key: int, exited: jobevents.Exited) -> Gone:
        """Say how a process ended that is still in the pool."""
        peak_bytes = self.accounted_bytes(key)
        if self._core.on_host and (spread := len(self._leased(key))):
            own_bytes = max(0, exited.max_rss_bytes - self._pool.baseline_bytes(key))
            peak_bytes = own_bytes // spread
        before = self._kernel_kills.count_before(time.monotonic())
        kills_before = max(self._kills_before.pop(key, 0), before)
        kernel_oom = self._core.on_host and kernel_kills() > kills_before
        return Gone(exited.status, exited.signal, peak_bytes, kernel_oom)

    def accounted_bytes(self, key: int) -> int:
        """The most that it has held of any device, where somebody keeps account of it."""
        tree = self._pool.tree(key)
        if tree is None:
            return 0
        try:
            devices = self._devices(key)
        except DeviceUnreadable:
            devices = [self._device]
        most = max((one.accounted_bytes(tree) for one in devices), default=0)
        return most // max(1, len(self._leased(key))) if self._core.on_host else most

    def kept_little(self, key: int) -> bool:
        """Whether it keeps so little that it may be used again."""
        tree = self._pool.tree(key)
        if tree is None:
            return False
        most_bytes = KEPT_BYTES[self._device.info.kind]
        try:
            return all(one.held_bytes(tree) <= most_bytes for one in self._devices(key))
        except DeviceUnreadable:
            return False

    def close(self) -> None:
        """Let go of all devices but the worker's own."""
        self._guests.close()

    def _devices(self, key: int) -> list[Device]:
        """Those on which this process may hold something.

        Raises:
            DeviceUnreadable: One of them could not be opened.
        """
        if self._core.on_host:
            return [self._device]  # a look at it sees the whole tree
        leased = self._leased(key)
        return [self._device, *self._guests.opened(leased[1:])] if leased else []

    def _leased(self, key: int) -> tuple[Leased, ...]:
        process = self._core.processes.get(key)
        return process.devices if process else ()
