"""What the device shows of the jobs that run on it: looks, peaks and what processes keep."""

import time
from collections.abc import Mapping
from typing import Final

from loguru import logger

from . import jobevents
from .core import WorkerCore
from .devices.callers import Callers
from .devices.device import Device, DeviceUnreadable, Sample, Tree
from .devices.kills import KernelKills
from .devices.memory import kernel_kills
from .events import Gone, Level
from .pool import Pool

# A job process may be used again if it kept no more than this: a GPU context is never kept.
KEPT_BYTES: Final = {"host": 32 << 20, "nvml": 0}


class Sampler:
    """Reads one device for one worker."""

    def __init__(self, device: Device, pool: Pool, core: WorkerCore) -> None:
        self._device = device
        self._pool = pool
        self._core = core
        self._callers = Callers()
        self._readable = True
        self._kernel_kills = KernelKills(kernel_kills())
        self._kills_before: dict[int, int] = {}

    def look(self) -> Level | None:
        """Look at the device; None if it cannot be read, but then the next look comes.

        While it cannot be read nothing is reported, so that the broker, hearing nothing,
        gives it no more jobs.
        """
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
            return None
        if not self._readable:
            logger.info("the device can be read again")
        self._readable = True
        return self._level(sample, trees)

    def _level(self, sample: Sample, trees: Mapping[str, Tree]) -> Level:
        by_job = {key: used for key, used in sample.by_tree.items() if key in self._core.runs}
        pids = {key: trees[key].main_pid for key in by_job}
        processes, owners = sample.processes, sample.owners
        if self._core.on_host:  # what strangers have of it cannot be told apart
            processes = {pid: by_job[key] for key, pid in pids.items()}
            owners = {pid: key for key, pid in pids.items()}
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
            # One that is to be launched, or has just ended, has no tree.
            if key in self._pool and (tree := self._pool.tree(key)):
                trees[process.job_id or f"idle:{key}"] = tree
        for job_id in self._core.runs:
            if tree := self._pool.caller_tree(job_id):
                trees[job_id] = tree
        return trees

    def begins(self, key: int) -> None:
        """A run is about to be fed to this process."""
        self._kills_before[key] = self._kernel_kills.count

    def gone(self, key: int, exited: jobevents.Exited) -> Gone:
        """Say how a process ended that is still in the pool."""
        peak_bytes = self.accounted_bytes(key)
        if self._core.on_host:
            peak_bytes = max(0, exited.max_rss_bytes - self._pool.baseline_bytes(key))
        before = self._kernel_kills.count_before(time.monotonic())
        kills_before = max(self._kills_before.pop(key, 0), before)
        kernel_oom = self._core.on_host and kernel_kills() > kills_before
        return Gone(exited.status, exited.signal, peak_bytes, kernel_oom)

    def accounted_bytes(self, key: int) -> int:
        """The most that this process has held, where somebody keeps account of it."""
        tree = self._pool.tree(key)
        return 0 if tree is None else self._device.accounted_bytes(tree)

    def kept_little(self, key: int) -> bool:
        """Whether it keeps so little that it may be used again."""
        tree = self._pool.tree(key)
        if tree is None:
            return False
        try:
            return self._device.held_bytes(tree) <= KEPT_BYTES[self._device.info.kind]
        except DeviceUnreadable:
            return False
