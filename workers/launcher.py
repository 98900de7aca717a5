"""Starting job processes.

A launcher is one small interface: a context in, a `JobProcess` out. This one executes a new
interpreter; `warmth` has one that forks from a warm process.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, Protocol

from grn_zmq import channel
from grn_zmq.context import Context
from grn_zmq.errors import GrnError
from grn_zmq.jobmain import BOOT
from grn_zmq.keeper import PR_SET_CHILD_SUBREAPER, children_of, descendants, prctl, send_signal

from .jobprocess import REAP_S, JobProcess, Learn
from .keepers import Keeper

# Killed processes are gone within milliseconds; one that hangs in the kernel must not keep
# the worker from its other jobs.
SWEEP_S: Final = 2.0
SWEEP_PAUSE_S: Final = 0.001


class LaunchError(GrnError):
    """A job process could not be started."""


class Launcher(Protocol):
    """What starts job processes."""

    # Children of the worker that are not the remains of a killed keeper. A worker that
    # starts other processes adds them.
    known_pids: set[int]

    def launch(
        self, context: Context, environment: Mapping[str, str], job_type: str = ""
    ) -> JobProcess:
        """Start a job process for one client.

        Args:
            environment: Variables on top of the client's, the worker's marker among them.
            job_type: What it will call; empty if nothing in its own interpreter.

        Raises:
            LaunchError: It could not be started; one line says why.
        """
        ...

    def fileno(self) -> int:
        """What to watch, for `hear`; negative if there is nothing."""
        ...

    def hear(self, now: float) -> None:
        """See to what became readable."""
        ...

    def look(self, now: float) -> None:
        """See to the processes that others are started from, if it is time to."""
        ...

    def close(self) -> None:
        """End what it keeps for later."""
        ...


class ExecLauncher:
    """Starts a new interpreter for every job process."""

    def __init__(self) -> None:
        self.known_pids: set[int] = set()
        self._dying: list[Keeper] = []

    def fileno(self) -> int:
        """Nothing is to be watched."""
        return -1

    def hear(self, now: float) -> None:
        """Nothing is kept."""

    def look(self, now: float) -> None:
        """Reap what has died."""
        if self._dying:
            self._reap()

    def close(self) -> None:
        """Reap what is dying."""
        self._reap(REAP_S)
        for one in self._dying:
            one.kill()
        self._reap(REAP_S)

    def _forget(self, keeper: Keeper) -> None:
        """Take over a keeper that nobody needs any more."""
        self._dying.append(keeper)

    def _reap(self, seconds: float = 0) -> None:
        dying, self._dying = self._dying, []
        for one in dying:
            try:
                one.wait(seconds)
                self.known_pids.discard(one.pid)
            except subprocess.TimeoutExpired:
                self._dying.append(one)

    def launch(
        self, context: Context, environment: Mapping[str, str], job_type: str = ""
    ) -> JobProcess:
        """Execute the client's interpreter; see `Launcher.launch`."""
        return self.execute(context, environment, lambda imported: None)

    def execute(
        self, context: Context, environment: Mapping[str, str], learn: Learn
    ) -> JobProcess:
        """The same, and let somebody know what its runs import."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("job processes are started from the main thread only")
        try:
            process = self._launch(context, environment, learn)
        except OSError as error:
            raise LaunchError(f"cannot start a job process: {error.strerror}") from error
        self.known_pids.add(process.keeper_pid)
        return process

    def _launch(
        self, context: Context, environment: Mapping[str, str], learn: Learn
    ) -> JobProcess:
        with ExitStack() as far, ExitStack() as near:
            ctl, far_ctl = channel.pair()
            near.enter_context(ctl)
            far.enter_context(far_ctl)
            job, far_job = channel.pair()
            near.enter_context(job)
            far.enter_context(far_job)
            said_fd = os.memfd_create("grn-said", os.MFD_CLOEXEC)
            near.callback(os.close, said_fd)
            setup: dict[str, object] = {"setup": True, "environment": dict(environment)}
            channel.send(job, setup, context.to_bytes())
            keeper = _execute(context, environment, far_ctl, far_job, said_fd)
            near.pop_all()
        return JobProcess(keeper, ctl, job, said_fd, self.sweep, self._forget, learn)

    def sweep(self) -> set[int]:
        """Kill and reap the worker's children it does not know; return all it met."""
        met: set[int] = set()
        deadline = time.monotonic() + SWEEP_S
        while time.monotonic() < deadline:
            strangers = [pid for pid in children_of(os.getpid()) if pid not in self.known_pids]
            if not strangers:
                break
            for stranger in strangers:
                for pid in (stranger, *descendants(stranger)):
                    send_signal(pid, signal.SIGKILL)
                    met.add(pid)
            time.sleep(SWEEP_PAUSE_S)
            for stranger in strangers:
                _reap(stranger)
        return met


def become_subreaper() -> None:
    """Let the remains of a killed keeper become this process's children."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def _execute(
    context: Context,
    environment: Mapping[str, str],
    ctl: socket.socket,
    job: socket.socket,
    said_fd: int,
) -> subprocess.Popen[bytes]:
    fds = (ctl.fileno(), job.fileno())
    words = [context.interpreter, *context.flags, "-P", "-c", BOOT, context.package_dir]
    try:
        return subprocess.Popen(
            [*words, *map(str, fds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said_fd,
            pass_fds=fds,
            cwd="/",
            env={**context.environment, **environment},
        )
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    raise LaunchError(f"cannot start the interpreter {context.interpreter!r}: {reason}")


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
