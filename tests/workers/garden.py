"""A launcher with real zygotes, driven by hand."""

import os
import select
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grn_zmq import keeper
from grn_zmq.context import Context
from tests.workers.launching import DEADLINE_S, until, value_of
from workers.jobevents import Exited
from workers.jobprocess import JobProcess
from workers.launcher import become_subreaper
from workers.warmth import LOOK_S, Bed, ZygoteLauncher
from workers.zygotes import Zygote


class Garden:
    """A launcher and what it has started."""

    def __init__(self) -> None:
        self.launcher = ZygoteLauncher()
        self.launcher.known_pids.update(keeper.children_of(os.getpid()))
        self.started: list[JobProcess] = []

    def launch(self, job_type: str = "fit", **environment: str) -> JobProcess:
        process = self.launcher.launch(Context.capture(), environment, job_type)
        self.started.append(process)
        return process

    def run(self, function: Callable[..., Any], *args: object) -> tuple[Any, bool]:
        """What a new process returns, and whether it was forked."""
        process = self.launch()
        value = value_of(process, function, *args)
        self.end(process)
        return value, process.forked

    def end(self, process: JobProcess) -> None:
        process.close()
        until(process, Exited)
        process.destroy()

    def bed(self, job_type: str = "fit", **environment: str) -> Bed:
        return self.launcher.bed(Context.capture(), environment, job_type)

    def settle(self, **environment: str) -> Zygote:
        """Wait until nothing more is begun, and give what serves now."""
        bed = self.bed(**environment)
        deadline = time.monotonic() + DEADLINE_S
        self.look()
        while bed.coming is not None:
            assert time.monotonic() < deadline, "no zygote became ready"
            select.select([self.launcher], [], [], 0.1)
            self.launcher.hear(time.monotonic())
            self.look()
        assert bed.serving is not None
        return bed.serving

    def warm(self) -> Zygote:
        """Have a zygote without imports."""
        self.bed().plan.launches = 2
        self.bed().plan.used_at = time.monotonic()
        return self.settle()

    def begins(self) -> bool:
        """Look, and say whether a zygote is coming."""
        self.look()
        return self.bed().coming is not None

    def comes(self) -> bool:
        """Hear, and say whether a zygote is still coming."""
        self.launcher.hear(time.monotonic())
        return self.bed().coming is not None

    def look(self) -> None:
        self.launcher.look(time.monotonic() + LOOK_S)

    def close(self) -> None:
        for process in self.started:
            process.destroy()
        self.launcher.close()


@pytest.fixture
def garden() -> Iterator[Garden]:
    """See that neither process nor descriptor is left behind."""
    children, fds = keeper.children_of(os.getpid()), os.listdir("/proc/self/fd")
    become_subreaper()
    garden = Garden()
    yield garden
    garden.close()
    keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 0)
    assert keeper.children_of(os.getpid()) == children
    assert len(os.listdir("/proc/self/fd")) == len(fds)
