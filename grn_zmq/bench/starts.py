"""Programs as a user starts them: from nothing running to a first result, and commands."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from .contender import Sample, require
from .ours import SMALL, command, running
from .sizes import WORKERS, Size

HELLO: Final = "hello"
# No program of a measurement takes longer.
PROGRAM_S: Final = 120.0
# As many characters as help, of what a program that failed said.
LAST_WORDS: Final = 200
TRUE: Final = "true"


def first(size: Size) -> Iterator[Sample]:
    """`grn run` where no broker is: of a command, and of a program that calls a function."""
    calling = [sys.executable, "-P", "-m", "grn_zmq.bench.hello"]
    for _ in range(size.starts):
        yield "command_s", seconds_to_hello(command("run", "--", "echo", HELLO))
        yield "function_s", seconds_to_hello(command("run", "--", *calling))


def seconds_to_hello(words: Sequence[str]) -> float:
    """Start a program, and give the seconds until it says hello; it has ended then."""
    begun = time.perf_counter()
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().decode().strip()
        seconds = time.perf_counter() - begun
        _, errors = process.communicate(timeout=PROGRAM_S)
    why = " ".join(errors.decode(errors="replace").split())[-LAST_WORDS:]
    require(said == HELLO, f"{said!r} was said instead of {HELLO!r}: {why}")
    require(process.returncode == 0, f"it left with status {process.returncode}")
    return seconds


def commands(size: Size) -> Iterator[Sample]:
    """Commands that do nothing, queued by one `grn submit` and waited for."""
    each = ["--array", f"1-{size.commands}", "--memory", SMALL]
    words = command("submit", "--wait", "--quiet", *each, "--", TRUE)
    with running(WORKERS):
        _run(command("submit", "--wait", "--quiet", "--memory", SMALL, "--", TRUE))
        for _ in range(size.repeats):
            yield "rate", size.commands / _run(words)
            yield "bare_rate", size.commands / _bare(size.commands)


def _run(words: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=PROGRAM_S)
    return time.perf_counter() - begun


def _bare(count: int) -> float:
    """The same commands one after the other, without any queue."""
    begun = time.perf_counter()
    for _ in range(count):
        subprocess.run([TRUE], check=True)
    return time.perf_counter() - begun
