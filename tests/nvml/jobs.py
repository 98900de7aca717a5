"""Jobs on the devices of a lease: one process on all of them, or a rank on each.

A job that holds memory writes `<path>`, with the pid that holds it on each device, and goes
on until there is a `<path>.end`. Imports little: it is what a job process pays for.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.nvml import cuda

_RANK = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import cuda
device, mib = map(int, sys.argv[1:])
cuda.alloc(mib, device)
print(flush=True)
sys.stdin.read()
"""


def hold_each(path: str, *mibs: int) -> list[str]:
    """Hold so much of the devices that this process sees as 0, 1, …; tell their uuids."""
    for device, mib in enumerate(mibs):
        cuda.alloc(mib, device)
    _wait(path, [os.getpid()] * len(mibs))
    return [card.text("uuid") for card in cuda.visible_cards()]


def ranks(path: str, *mibs: int) -> int:
    """Hold so much of each device in a process of its own; the parent touches none of them."""
    started = [_start_rank(device, mib) for device, mib in enumerate(mibs)]
    for rank in started:
        assert rank.stdout is not None
        rank.stdout.readline()  # it has what it was told to take
    _wait(path, [rank.pid for rank in started])
    for rank in started:
        rank.communicate()
    return os.getpid()


def _start_rank(device: int, mib: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", _RANK, str(device), str(mib)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _wait(path: str, pids: list[int]) -> None:
    cuda.write(path, json.dumps(pids))
    while not os.path.exists(f"{path}.end"):
        time.sleep(0.01)
