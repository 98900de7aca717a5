"""System calls of a running process that fail because a test wants it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.waiting import until


@contextmanager
def failing_calls(pid: int, calls: str, error: str, when: str) -> Iterator[None]:
    """Let these system calls of a process fail; `when` counts them, as `strace` does."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("there is no strace here")
    orders = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={when}"]
    tracer = subprocess.Popen(
        [program, "-f", "-qq", "-o", "/dev/null", *orders, "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: _is_traced(pid) or tracer.poll() is not None, 5)
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            pytest.skip(f"no process can be traced here: {tracer.stderr.read().strip()}")
        yield
    finally:
        tracer.terminate()
        tracer.communicate()


def _is_traced(pid: int) -> bool:
    with open(f"/proc/{pid}/status") as status:
        return any(line.split() > ["TracerPid:", "0"] for line in status if "TracerPid" in line)
