"""Real job processes, driven by a small loop with a deadline."""

import dataclasses
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgpack
import pytest

from grn_zmq import keeper, payload
from grn_zmq.context import Context
from workers.jobevents import Event, Exited, Outcome, Output, Ready, Run
from workers.jobprocess import JobProcess
from workers.launcher import ExecLauncher
from workers.warmth import LOOK_S, ZygoteLauncher

DEADLINE_S = 30.0
MIB = 1024 * 1024
Start = Callable[..., JobProcess]
E = TypeVar("E", Ready, Output, Outcome, Exited)


@pytest.fixture(params=["executed", "forked"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start job processes, and see that neither process nor descriptor is left behind.

    Those that are forked come from a zygote where one can be had for their context.
    """
    children, fds = keeper.children_of(os.getpid()), os.listdir("/proc/self/fd")
    started = list[JobProcess]()
    launcher = ExecLauncher() if request.param == "executed" else ZygoteLauncher()
    launcher.known_pids.update(children)

    def launch(context: Context | None = None, **environment: str) -> JobProcess:
        context = context or Context.capture()
        if isinstance(launcher, ZygoteLauncher):
            warm_up(launcher, context, environment)
        process = launcher.launch(context, environment, "type")
        launcher.look(time.monotonic())
        started.append(process)
        works = "-Z" not in context.flags
        assert process.forked == (works and isinstance(launcher, ZygoteLauncher))
        return process

    yield launch
    for process in started:
        process.destroy()
    launcher.close()
    assert keeper.children_of(os.getpid()) == children
    assert len(os.listdir("/proc/self/fd")) == len(fds)


def warm_up(
    launcher: ZygoteLauncher,
    context: Context,
    environment: dict[str, str],
    job_type: str = "type",
) -> None:
    """Have a zygote for job processes like these, if there can be one."""
    bed = launcher.bed(context, environment, job_type)
    bed.plan.launches = max(2, bed.plan.launches)
    bed.plan.used_at = time.monotonic()
    launcher.look(time.monotonic() + LOOK_S)
    while bed.coming is not None:
        assert select.select([launcher], [], [], DEADLINE_S)[0], "no zygote became ready"
        launcher.hear(time.monotonic())


def until(process: JobProcess, kind: type[E], before: list[Event] | None = None) -> E:
    """Drive the process to the next event of a kind; earlier ones go to `before`."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for fd in select.select(process.filenos(), [], [], 1.0)[0]:
            for event in process.read(fd):
                if isinstance(event, kind):
                    return event
                if before is not None:
                    before.append(event)
    raise AssertionError(f"no {kind.__name__} within {DEADLINE_S} s")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


def a_call(function: Callable[..., Any], *args: object, **changes: Any) -> Run:
    blob = payload.dump_function(function, changes.pop("stand_in_function", None))
    content = payload.dump_arguments(args, {}).joined()
    run = Run("job-1", 1, "call", payload.digest(blob), blob, content)
    return dataclasses.replace(run, **changes)


def a_command(*words: str, stdin: str = "") -> Run:
    return Run("job-1", 1, "command", content=msgpack.packb(list(words)), stdin=stdin)


def outcome_of(process: JobProcess, function: Callable[..., Any], *args: object) -> Outcome:
    process.feed(a_call(function, *args))
    return until(process, Outcome)


def value_of(process: JobProcess, function: Callable[..., Any], *args: object) -> Any:
    outcome = outcome_of(process, function, *args)
    assert outcome.outcome == "succeeded", outcome.error_text
    return payload.load_value(outcome.body)


def output_of(events: list[Event], stream: str) -> bytes:
    chunks = [e.data for e in events if isinstance(e, Output) and e.stream == stream]
    return b"".join(chunks)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def leave_processes(directory: str) -> None:
    """Start a child and a setsid daemon that ignore TERM, and note their pids."""
    sleep = "import os,signal,sys,time; signal.signal(15, signal.SIG_IGN);"
    note = "open(os.path.join(sys.argv[1], str(os.getpid())), 'w'); time.sleep(600)"
    daemon = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0);"
    for code in (sleep + note, daemon + sleep + note):
        subprocess.Popen([sys.executable, "-c", code, directory])
    while len(os.listdir(directory)) < 2:
        time.sleep(0.005)
