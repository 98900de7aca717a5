"""What a worker tells of its device, and how often it looks at it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from grn_zmq import wire
from grn_zmq.records import DeviceProcess, Use

from .events import Elsewhere, Level
from .runs import ActiveRun

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
# Where more jobs run than this, each was seen alone before or is small: all devices of a host
# are looked at, and that together must stay below a tenth of a core.
MANY: Final = 8
MOST_SAMPLE_S: Final = 0.5
# Of the processes on a device: more than fit on a screen, and a report stays small.
MOST_LISTED: Final = 64


class Reporter:
    """Remembers what was told, and says when there is something to tell."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._told: wire.Report | None = None
        self._told_at = float("-inf")
        self._crowded = False

    def forget(self) -> None:
        """Whoever was told is gone: the next look is news."""
        self._told = None

    def news(self, level: Level, runs: Collection[ActiveRun], now: float) -> wire.Report | None:
        """Give what is to be told now, if anything is."""
        report = wire.Report(
            level.used_bytes,
            level.foreign_bytes,
            level.idle_bytes,
            level.utilisation,
            tuple(use for one in runs for use in _uses(one, level)),
            level.temperature_c,
        )
        # Somebody may wait until the device is nobody's.
        crowded = not level.processes.keys() <= level.owners.keys()
        left = self._crowded and not crowded
        if now - self._told_at < HEARTBEAT_S and not left and not self._notable(report):
            return None
        self._told, self._told_at, self._crowded = report, now, crowded
        return replace(report, processes=_listed(level, {one.run.job_id for one in runs}))

    def _notable(self, report: wire.Report) -> bool:
        told = self._told
        if told is None:
            return True
        before = {(use.job_id, use.device): use.used_bytes for use in told.uses}
        changes = [
            report.foreign_bytes - told.foreign_bytes,
            report.idle_bytes - told.idle_bytes,
            *(use.used_bytes - before.get((use.job_id, use.device), 0) for use in report.uses),
        ]
        return any(abs(change) * NOTABLE_PART >= self._total_bytes for change in changes)


def take_elsewhere(found: Elsewhere, runs: Mapping[str, ActiveRun]) -> None:
    """Take note of what another device of their leases shows of these."""
    for job_id, used_bytes in found.by_job.items():
        if active := runs.get(job_id):
            own = job_id in found.seen
            active.measured.take_use_elsewhere(found.device, used_bytes, own=own)


def take(level: Level, runs: Mapping[str, ActiveRun], now: float, *, on_host: bool) -> None:
    """Take note of what the device shows of these."""
    for job_id, used_bytes in level.by_job.items():
        if active := runs.get(job_id):
            own = job_id in level.seen
            active.measured.take_use(used_bytes, own=own)
            # Host memory has no places: of each device a job has an equal part.
            for one in active.run.devices[1:] if on_host else ():
                active.measured.take_use_elsewhere(one.uuid, used_bytes, own=own)
    for active in runs.values():
        if active.began_at is not None:
            active.measured.take_load(level.utilisation, now)


def _uses(active: ActiveRun, level: Level) -> list[Use]:
    """What it uses here, and on each other device of its lease."""
    run, measured = active.run, active.measured
    pid = level.pids.get(run.job_id, run.pid if active.inline else 0)
    here = Use(run.job_id, run.attempt, measured.used_bytes, pid)
    return [
        here,
        *(
            replace(here, used_bytes=measured.elsewhere.get(one.uuid, 0), device=one.uuid)
            for one in run.devices[1:]
        ),
    ]


def _listed(level: Level, job_ids: Collection[str]) -> tuple[DeviceProcess, ...]:
    """The processes of jobs and of strangers, largest first; those that idle are neither."""
    found = [
        DeviceProcess(pid, used_bytes, whose)
        for pid, used_bytes in level.processes.items()
        if not (whose := level.owners.get(pid, "")) or whose in job_ids
    ]
    found.sort(key=lambda one: (-one.used_bytes, one.pid))
    return tuple(found[:MOST_LISTED])


def sample_s(
    runs: Collection[ActiveRun], processes: Collection[object], now: float, cost_s: float
) -> float:
    """Say how long after a look at the device the next is due.

    Args:
        cost_s: What a look takes of a core, with all that belongs to it.
    """
    if len(runs) > MANY:
        return min(MOST_SAMPLE_S, max(SAMPLE_S, cost_s / (COST_PART / 2)))
    if any(one.run.young and one.ran_s(now) < YOUNG_FOR_S for one in runs):
        return min(SAMPLE_S, max(YOUNG_SAMPLE_S, cost_s / COST_PART))
    return SAMPLE_S if runs or processes else IDLE_SAMPLE_S
