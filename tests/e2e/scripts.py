"""Users' scripts as real processes, and a look at the broker from outside."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grn_zmq.client import this_client
from grn_zmq.discovery import find_address
from grn_zmq.facts import DeviceRow
from grn_zmq.paths import find_places
from grn_zmq.wire import AskDevices, DevicesAre
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
LONGEST_S = 30.0


def write_script(path: Path, text: str) -> Path:
    path.write_text("import grn_zmq as grn\n" + textwrap.dedent(text))
    return path


def start_script(
    path: Path, *args: object, cwd: Path | None = None, **variables: str
) -> "subprocess.Popen[str]":
    """Start a script; it finds `tests`, and both its streams are pipes."""
    return subprocess.Popen(
        [sys.executable, str(path), *map(str, args)],
        cwd=cwd or path.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def running_script(
    path: Path, *args: object, cwd: Path | None = None, **variables: str
) -> "Iterator[subprocess.Popen[str]]":
    """A script that is killed if the test has not ended it."""
    process = start_script(path, *args, cwd=cwd, **variables)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def run_script(
    path: Path, *args: object, cwd: Path | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run a script to its end."""
    with running_script(path, *args, cwd=cwd, **variables) as process:
        out, err = process.communicate(timeout=LONGEST_S * PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def end_of(process: "subprocess.Popen[str]", seconds: float) -> tuple[int, str]:
    """Wait for a script to end; give its status and what it wrote to stderr."""
    _, err = process.communicate(timeout=seconds * PATIENCE)
    return process.returncode, err


def devices() -> tuple[DeviceRow, ...]:
    return this_client().ask(AskDevices(), DevicesAre).rows


def leases() -> int:
    """How many jobs hold a lease now."""
    return sum(row.jobs for row in devices())


def all_leases_are_freed(seconds: float = 2.0) -> None:
    until(lambda: leases() == 0, seconds, lambda: f"leases are left: {devices()}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_gone(pid: int, seconds: float = 5.0) -> None:
    until(lambda: not is_alive(pid), seconds, lambda: f"process {pid} is alive")


def broker_pid() -> int:
    address = find_address(find_places(os.environ))
    assert address is not None
    return address.pid


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Hold a process still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
