"""Starting job processes warm: forked from a zygote where there is one.

Nobody waits for a zygote: until one is ready a job process is executed as ever, and if it
dies the next is. Which zygotes are worth their start is decided in `imports`.
"""

import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from loguru import logger

from grn_zmq import channel
from grn_zmq.context import Context
from grn_zmq.imported import site_directories

from .imports import Learned, Plan
from .jobprocess import REAP_S, JobProcess, Learn
from .launcher import ExecLauncher
from .pressure import Pressure
from .zygotekeys import Key, key_of, lasting_variables
from .zygotes import Ended, Seedling, Zygote

MOST_ZYGOTES: Final = 4
# A zygote holds what it has imported: a few hundred megabytes with a large framework.
IDLE_S: Final = 600.0
# A spare serves jobs that come one after the other.
SPARE_S: Final = 30.0
LOOK_S: Final = 1.0
# Of what zygotes were never started for, so many are remembered.
MOST_KEYS: Final = 64


@dataclass(slots=True)
class Bed:
    """The zygotes of one key: one that serves, and one that shall take its place."""

    plan: Plan = field(default_factory=Plan)
    serving: Zygote | None = None
    coming: Zygote | None = None


class ZygoteLauncher(ExecLauncher):
    """Forks job processes from zygotes, or executes them."""

    def __init__(self) -> None:
        super().__init__()
        self._pressure = Pressure()
        self._beds: dict[Key, Bed] = {}
        self._learned = Learned()
        # By interpreter, what must not be imported in advance.
        self._refused: dict[str, set[str]] = {}
        self._epoll = select.epoll()
        self._look_at = 0.0

    def fileno(self) -> int:
        """What becomes readable when a zygote has something to say."""
        return self._epoll.fileno()

    def launch(
        self, context: Context, environment: Mapping[str, str], job_type: str = ""
    ) -> JobProcess:
        """Fork a job process, or execute one; see `Launcher.launch`."""
        now = time.monotonic()
        bed = self.bed(context, environment, job_type)
        bed.plan.launched(job_type, now)
        learn = partial(self._learn, job_type)
        self._look_at = now  # a start that is due is for the next turn: this job goes first
        if bed.coming is not None:
            self._hear(bed, bed.coming, now)
        process = self._fork(bed, context, environment, learn)
        return process or self.execute(context, environment, learn)

    def bed(self, context: Context, environment: Mapping[str, str], job_type: str = "") -> Bed:
        """Give the zygotes that such a job process may come from."""
        key = key_of(context, environment, stamps_of(context), bare=not job_type)
        if key not in self._beds:
            for other_key, other in self._beds.items():
                if replace(other_key, stamps=key.stamps) == key:
                    self._retire(other)  # something was installed since
        bed = self._beds.pop(key, None) or Bed()
        self._beds[key] = bed  # the last used is the last
        unused = [one for one, other in self._beds.items() if not _zygotes(other)]
        for other_key in unused[: max(0, len(self._beds) - MOST_KEYS)]:
            del self._beds[other_key]
        return bed

    def _learn(self, job_type: str, imported: Mapping[object, object]) -> None:
        if job_type:
            self._learned.take(job_type, imported)
            self._look_at = 0.0

    def _fork(
        self, bed: Bed, context: Context, environment: Mapping[str, str], learn: Learn
    ) -> JobProcess | None:
        zygote = bed.serving
        if zygote is None:
            return None
        try:
            seedling = zygote.fork()
        except OSError:
            seedling = None
        process = self._set_up(zygote, seedling, context, environment, learn)
        if process is None:
            self._ended(bed, zygote, Ended("it does not fork"), time.monotonic())
        return process

    def _set_up(
        self,
        zygote: Zygote,
        seedling: Seedling | None,
        context: Context,
        environment: Mapping[str, str],
        learn: Learn,
    ) -> JobProcess | None:
        if seedling is None:
            return None
        keeper = seedling.keeper()
        if keeper is None:
            seedling.close()
            return None
        self.known_pids.add(keeper.pid)
        ctl, job, said_fd = seedling.ctl, seedling.job, seedling.said_fd
        forget = self._forget
        process = JobProcess(keeper, ctl, job, said_fd, self.sweep, forget, learn, forked=True)
        set_by_imports = lasting_variables(zygote.environment)
        setup = {"setup": True, "environment": {**set_by_imports, **environment}}
        try:
            channel.send(job, setup, context.to_bytes())
        except OSError:
            process.destroy()
            return None
        return process

    def look(self, now: float) -> None:
        """Begin what is due, end what is idle, reap what has died."""
        super().look(now)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if self._pressure.high(now):
            for bed in self._beds.values():
                self._retire(bed)
            return
        for key, bed in list(self._beds.items()):
            for zygote in _zygotes(bed):
                self._hear(bed, zygote, now)
            idle_s = now - bed.plan.used_at
            if idle_s > IDLE_S:
                self._retire(bed)
            elif bed.coming is None:
                self._begin_if_due(key, bed, now)
            self._see_to_spare(bed, idle_s)

    def hear(self, now: float) -> None:
        """Take what zygotes have to say, after `fileno` became readable."""
        talking = {fd for fd, _ in self._epoll.poll(0)}
        for bed in list(self._beds.values()):
            for zygote in _zygotes(bed):
                if zygote.fileno() in talking:
                    self._hear(bed, zygote, now)

    def _hear(self, bed: Bed, zygote: Zygote, now: float) -> None:
        if ended := zygote.hear(now):
            self._ended(bed, zygote, ended, now)
        elif zygote.ready and zygote is bed.coming:
            if bed.serving is not None:
                self._end(bed.serving)
            bed.serving, bed.coming = zygote, None
            bed.plan.served()
            self._see_to_spare(bed, now - bed.plan.used_at)

    def _ended(self, bed: Bed, zygote: Zygote, ended: Ended, now: float) -> None:
        facts = {"pid": zygote.process.pid, "why": ended.why, "module": ended.blamed}
        if ended.blamed:
            logger.bind(facts=facts).info("a module is not imported in advance any more")
            self._refused.setdefault(zygote.key.interpreter, set()).add(ended.blamed)
            self._look_at = 0.0
        else:
            logger.bind(facts=facts).warning("a zygote has ended")
            bed.plan.died(now, for_good=ended.unfit)
        if zygote is bed.coming:
            bed.coming = None
        else:
            bed.serving = None
        newest = bed.coming or bed.serving
        bed.plan.has = None if newest is None else frozenset(newest.names)
        self._end(zygote)
        if ended.blamed:  # it may have started processes, which become ours when it is dead
            with suppress(subprocess.TimeoutExpired):
                zygote.process.wait(REAP_S)
            self.sweep()

    def _begin_if_due(self, key: Key, bed: Bed, now: float) -> None:
        refused = self._refused.get(key.interpreter, ())
        weights = self._learned.weights(bed.plan.types)
        wanted = {name: n for name, n in weights.items() if name not in refused}
        if not bed.plan.due(wanted, now):
            return
        self._make_room(bed)
        bed.plan.begun(wanted)
        try:
            bed.coming = Zygote(key, list(wanted), now)
        except (OSError, ValueError):  # a job process will not start either, and say why
            bed.plan.has = None
            bed.plan.died(now)
            return
        self.known_pids.add(bed.coming.process.pid)
        self._epoll.register(bed.coming, select.EPOLLIN)

    def _make_room(self, wanting: Bed) -> None:
        others = [bed for bed in self._beds.values() if bed is not wanting and _zygotes(bed)]
        others.sort(key=lambda bed: bed.plan.used_at)
        for bed in others[: max(0, len(others) + 1 - MOST_ZYGOTES)]:
            self._retire(bed)

    def _see_to_spare(self, bed: Bed, idle_s: float) -> None:
        if bed.serving is None:
            return
        if idle_s <= SPARE_S:
            try:
                bed.serving.keep_spare()
            except OSError:
                pass  # the next look finds out why
        elif bed.serving.spare is not None:
            self._dying += bed.serving.drop_spare()

    def _retire(self, bed: Bed) -> None:
        if not _zygotes(bed):
            return
        for zygote in _zygotes(bed):
            self._end(zygote)
        bed.serving = bed.coming = None
        bed.plan.rest()

    def _end(self, zygote: Zygote) -> None:
        self._epoll.unregister(zygote)
        self._dying += [*zygote.end(), zygote.process]

    def sweep(self) -> set[int]:
        """Kill and reap the worker's children it does not know; return all it met."""
        for bed in self._beds.values():  # spares are known once they have said their pid
            for zygote in _zygotes(bed):
                if zygote.spare and (keeper := zygote.spare.keeper()):
                    self.known_pids.add(keeper.pid)
        return super().sweep()

    def close(self) -> None:
        """End all zygotes and spares."""
        for bed in self._beds.values():
            self._retire(bed)
        super().close()
        self._epoll.close()


def stamps_of(context: Context) -> tuple[int, ...]:
    """Say when the interpreter, what is installed for it, and we ourselves last changed."""
    own = os.path.join(context.package_dir, "grn_zmq")
    stamps: list[int] = []
    for path in (context.interpreter, own, *site_directories(context.sys_path)):
        try:
            stamps.append(os.stat(path).st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)


def _zygotes(bed: Bed) -> list[Zygote]:
    return [one for one in (bed.serving, bed.coming) if one is not None]
