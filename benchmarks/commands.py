"""How long a command takes to be there: beside an interpreter that does nothing.

python -m benchmarks.commands               medians of 15, and how many times `python -c pass`
python -m benchmarks.commands --json        the same as facts
python -m benchmarks.commands --rounds 3    quicker, and less sure

It starts a broker of its own in a directory of its own, and leaves neither behind.
"""

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from grn_zmq import starting
from grn_zmq.parcels import find_parcels

ROUNDS: Final = 15
MOST_ROUNDS: Final = 1_000
# No command may hold up the whole of it.
COMMAND_S: Final = 60.0
PLACES: Final = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
# What each may take at most, in times of the first, on a machine with nothing else to do.
BOUNDS: Final = {"python -c pass": 1.0, "grn --help": 6.0, "grn ps": 10.0}


@dataclass(frozen=True, slots=True)
class Figure:
    """What one command took, by the clock on the wall."""

    command: str
    median_s: float
    fastest_s: float
    ratio: float
    most_ratio: float


@contextmanager
def a_broker() -> Iterator[None]:
    """A broker that nobody else finds, with one small device and nothing to do."""
    home = Path(tempfile.mkdtemp(prefix="grn-"))
    before = dict(os.environ)
    try:
        for name in PLACES:
            (home / name).mkdir(mode=0o700)
            os.environ[name] = str(home / name)
        os.environ.pop("GRN_CONFIG", None)
        with starting.start("host:1x200MiB"):
            yield
    finally:
        shutil.rmtree(find_parcels(os.environ).shm, ignore_errors=True)
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(home)


def words_of(command: str) -> list[str]:
    """What to execute: our script as it was installed beside this interpreter."""
    program, *words = command.split()
    if program == "python":
        return [sys.executable, *words]
    script = Path(sys.executable).parent / program
    found = [str(script)] if script.exists() else [sys.executable, "-m", "grn_zmq.cli.main"]
    return [*found, *words]


def took_s(words: Sequence[str]) -> float:
    """Run a command to its end, and give the seconds.

    Raises:
        CalledProcessError: It failed, or took longer than any command may.
    """
    begun = time.perf_counter()
    with subprocess.Popen(
        words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        # A wait with a timeout would look now and then, and find the end too late.
        pidfd = os.pidfd_open(process.pid)
        ended, _, _ = select.select([pidfd], [], [], COMMAND_S)
        seconds = time.perf_counter() - begun
        os.close(pidfd)
        if not ended:
            process.kill()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return seconds


def measure(rounds: int) -> list[Figure]:
    """Time the commands in turn, so that what else the machine does hits all alike."""
    words = {command: words_of(command) for command in BOUNDS}
    for one in words.values():
        took_s(one)  # what Python compiles once, and the kernel reads once
    times: dict[str, list[float]] = {command: [] for command in BOUNDS}
    for _ in range(rounds):
        for command, one in words.items():
            times[command].append(took_s(one))
    medians = {command: statistics.median(some) for command, some in times.items()}
    base_s = next(iter(medians.values()))
    return [
        Figure(command, medians[command], min(times[command]), medians[command] / base_s, most)
        for command, most in BOUNDS.items()
    ]


def show(figures: Sequence[Figure], rounds: int) -> None:
    print(f"{'':16} {'median':>9} {'fastest':>9} {'ratio':>7} {'at most':>8}   ({rounds} runs)")
    for one in figures:
        print(
            f"{one.command:16} {one.median_s * 1e3:6.1f} ms {one.fastest_s * 1e3:6.1f} ms "
            f"{one.ratio:7.1f} {one.most_ratio:8.1f}"
        )


def whole(text: str) -> int:
    rounds = int(text)
    if not 1 <= rounds <= MOST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{rounds} is not from 1 to {MOST_ROUNDS}")
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=whole, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with a_broker():
        figures = measure(asked.rounds)
    if asked.json:
        facts = {"rounds": asked.rounds, "commands": [asdict(one) for one in figures]}
        print(json.dumps(facts, indent=2))
    else:
        show(figures, asked.rounds)


if __name__ == "__main__":
    main()
