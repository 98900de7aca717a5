"""Runs command lines as jobs and waits for them."""

import contextlib
import errno
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..client import this_client
from ..discovery import is_locked
from ..errors import (
    BrokerRunning,
    BrokerUnavailable,
    JobError,
    JobExited,
    JobKilled,
    JobOutOfMemory,
    TimeLimitExceeded,
)
from ..futures import Future
from ..paths import find_places
from ..pending import Pending
from ..records import Outcome
from ..starting import Server, start
from ..submission import new_id
from .common import INTERRUPTED, UNREACHABLE, check_environment, fail, printable, say
from .queueing.planning import CommandJob
from .queueing.specs import context_of, describe_command
from .remaining import last_number, wait_for_others
from .states import TIMED_OUT

# After INT a job has its grace, then TERM and as much again, then KILL.
INTERRUPT_S: Final = 12.0
# Without its answer there is nothing to wait for: jobs end once their client is gone.
BROKER_ANSWERS_S: Final = 5.0
# How soon a command that was in the background finds that the terminal is its own again.
FOREGROUND_S: Final = 0.2
CHUNK_BYTES: Final = 1 << 16
NOT_AGAIN: Final = (
    "the command is not run again if it fails: its input comes through a pipe, and can be read "
    "only once. If it reads nothing, add: < /dev/null"
)


def run_commands(
    jobs: Sequence[CommandJob], devices: str | None, max_jobs: int | None, debug: bool
) -> int:
    """Run all commands; give the exit status of the first that failed."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:  # as under `nohup`
            signal.signal(signum, _leave)
    with (
        broker(devices, max_jobs, debug) as ours,
        standard_input(len(jobs) == 1) as stdin,
    ):
        submitted: list[Pending] = []
        try:
            before = last_number() if ours else 0
            if stdin and not can_run_again():
                jobs = [_only_once(job) for job in jobs]
            submitted += (submit_command(job, stdin) for job in jobs)
            status = wait_for_all(submitted, [job.title for job in jobs])
            if ours:
                with contextlib.suppress(KeyboardInterrupt):  # our own commands have ended
                    wait_for_others(before)
            return status
        except KeyboardInterrupt:
            end([one.future for one in submitted], interrupt=True)
            return INTERRUPTED
        except SystemExit:
            end([one.future for one in submitted], interrupt=False)
            raise


def _leave(signum: int, _: object) -> None:
    sys.exit(128 + signum)


@contextlib.contextmanager
def broker(devices: str | None, max_jobs: int | None, debug: bool) -> Iterator[bool]:
    """Use the broker that runs, or start one for as long as this lasts; True if started."""
    server = None if _is_there() else _start(devices, max_jobs, debug)
    with server or contextlib.nullcontext():
        try:
            yield server is not None
        finally:
            if server is not None:
                this_client().close()


def _start(devices: str | None, max_jobs: int | None, debug: bool) -> Server | None:
    check_environment()
    log = sys.stderr if debug else None
    try:
        return start(devices, max_jobs=max_jobs, debug=debug, log=log)
    except (BrokerRunning, BrokerUnavailable) as error:
        if _is_there():
            return None  # somebody else started one at the same moment
        fail(error.reason if isinstance(error, BrokerUnavailable) else str(error), UNREACHABLE)


def _is_there() -> bool:
    """Whether there is a broker, ready or not: connecting waits until it is."""
    return is_locked(find_places(os.environ))


@contextlib.contextmanager
def standard_input(wanted: bool) -> Iterator[str]:
    """Pass our stdin on through a named pipe, for a single command."""
    if not wanted or sys.stdin is None or sys.stdin.closed:
        yield ""
        return
    path = find_places(os.environ).stdin(new_id())
    os.mkfifo(path, 0o600)
    there = threading.Lock()
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    threading.Thread(target=_copy_stdin, args=(path, there), daemon=True).start()
    try:
        yield str(path)
    finally:
        with there:
            path.unlink(missing_ok=True)


def can_run_again() -> bool:
    """Whether a second attempt misses nothing: a terminal or /dev/null, but no data."""
    return stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)


def _copy_stdin(path: Path, there: threading.Lock) -> None:
    with contextlib.suppress(OSError):  # the command has ended, or never read
        with open(path, "wb") as pipe:
            _empty_from_now_on(path, there)  # the command has it open
            while data := _read(sys.stdin.fileno()):
                pipe.write(data)
                pipe.flush()


def _empty_from_now_on(path: Path, there: threading.Lock) -> None:
    """Let a second attempt find an empty input: a pipe without a writer would hold it up."""
    with there:
        if not path.exists():
            return  # all has ended
        spare = path.with_suffix(".next")
        os.symlink(os.devnull, spare)
        os.replace(spare, path)


def _read(fd: int) -> bytes:
    """Read on; in the background wait, instead of being stopped, until the terminal is ours."""
    while True:
        try:
            return os.read(fd, CHUNK_BYTES)
        except OSError as error:
            if error.errno != errno.EIO or os.tcgetpgrp(fd) == os.getpgrp():
                raise
            time.sleep(FOREGROUND_S)


def _only_once(job: CommandJob) -> CommandJob:
    if job.options.retries:
        say(f"grn: {NOT_AGAIN}", err=True)
    return replace(job, options=job.options.with_options(oom_retries=0, retries=0))


def submit_command(job: CommandJob, stdin: str) -> Pending:
    context = context_of(job.cwd)
    spec = describe_command(job, context, detached=False, stdin=stdin)
    return this_client().submit(spec, (context,))


def wait_for_all(jobs: Sequence[Pending], titles: Sequence[str]) -> int:
    """Give the first status that is not 0, in the order of the commands."""
    status = 0
    for job, title in zip(jobs, titles, strict=True):
        this = exit_status(job)
        if this and len(jobs) > 1:
            say(f"grn: status {this}: {title}", err=True)
        status = status or this
    return status


def exit_status(job: Pending) -> int:
    """The command's own status, or what a shell would make of its end."""
    try:
        error = job.future.exception()
    except CancelledError:
        say(f"grn: job {job.number or job.future.job_id} was cancelled", err=True)
        return INTERRUPTED
    match error:
        case None:
            return 0
        case JobExited():
            return error.exit_status
        case JobKilled():
            say(f"grn: {printable(error.summary)}", err=True)  # its lines were seen already
            return 128 + error.signal
        case JobOutOfMemory():
            say(f"grn: {printable(str(error))}", err=True)
            return _status_of(job.future.outcome)
        case TimeLimitExceeded():
            say(f"grn: {printable(error.summary)}", err=True)
            return TIMED_OUT
        case JobError():
            say(f"grn: {error.summary}", err=True)
            return 1
    raise error


def _status_of(outcome: Outcome | None) -> int:
    """The status of a command that has failed, by its own word if it left any."""
    if outcome is not None and outcome.signal:
        return 128 + outcome.signal
    return (outcome.exit_status if outcome is not None else None) or 1


def end(futures: Sequence[Future[Any]], *, interrupt: bool) -> None:
    """Pass the signal on and wait for the commands to end; a second one does not wait."""
    left = [future for future in futures if not future.done()]
    if not left:
        return
    try:
        job_ids = (future.job_id for future in left)
        asked = this_client().ask_to_cancel(*job_ids, interrupt=interrupt)
        deadline = time.monotonic() + BROKER_ANSWERS_S
        if all(one.cancel_taken.wait(deadline - time.monotonic()) for one in asked):
            for future in left:
                with contextlib.suppress(Exception):
                    future.exception(timeout=INTERRUPT_S)
    except (KeyboardInterrupt, SystemExit):
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
    this_client().close()  # what is still there ends with us; nobody waits for it at exit
