"""What jobs of these tests do: grab memory of their device, leave notes, wait at a gate.

Imports little, because on host-memory devices what a job imports is memory it uses.
"""

import fcntl
import os
import sys
from typing import Final

import grn_zmq as grn
from tests.nvml import cuda

MIB: Final = 1 << 20
PAGE: Final = 4096
# What a job process saw before the first line of any function here.
VISIBLE_AT_IMPORT: Final = os.environ.get("CUDA_VISIBLE_DEVICES")

_kept: list[bytearray] = []


def grab(mib: int) -> bytearray:
    """Take memory of the device: of a GPU until the process ends, else until it is dropped."""
    if os.environ["GRN_DEVICE"].startswith("nvml"):
        cuda.alloc(mib)
        return bytearray()
    held = bytearray(mib * MIB)
    held[::PAGE] = b"\1" * -(-len(held) // PAGE)  # untouched pages are no memory yet
    return held


def note(place: str, word: str) -> None:
    """Append one line in one write: the word, the job, its process and its device."""
    job_id = os.environ.get("GRN_JOB_ID", "-")
    line = f"{word} {job_id} {os.getpid()} {os.environ.get('GRN_DEVICE', '-')}\n"
    notes = os.open(os.path.join(place, "notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(notes, line.encode())
    os.close(notes)


def wait_at(place: str, gate: str) -> None:
    """Wait until the test opens the gate; without a name there is nothing to wait for."""
    if gate:
        with open(os.path.join(place, gate)) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


def hold(place: str, mib: int = 0, gate: str = "") -> str:
    """Grab memory and hold it until the gate opens; tell the device."""
    note(place, "start")
    held = grab(mib)
    note(place, "holds")
    wait_at(place, gate)
    del held
    note(place, "end")
    return os.environ["GRN_DEVICE"]


def light(place: str, mib: int = 0, gate: str = "") -> str:
    """Stand in for `hold`: the same memory, another word, no waiting."""
    note(place, "light")
    held = grab(mib)
    del held
    return "light"


def leave(place: str, mib: int, how: str) -> None:
    """Grab memory and leave in the given way."""
    held = grab(mib)
    note(place, how)
    match how:
        case "raise":
            raise ValueError(f"{len(held)} bytes were not enough")
        case "exit":
            sys.exit(3)
        case "_exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), 9)


def fail_later(place: str, gate: str) -> None:
    """Raise as soon as the gate opens."""
    note(place, "start")
    wait_at(place, gate)
    raise RuntimeError("boom")


def keep(place: str, mib: int, gate: str = "") -> int:
    """Grab memory and keep it after the return; tell the process."""
    _kept.append(grab(mib))
    note(place, "keeps")
    wait_at(place, gate)
    return os.getpid()


def nest(place: str, mib: int, depth: int) -> list[str]:
    """Hold memory and call a job of the same type, so many levels down."""
    held = grab(mib)
    note(place, f"depth-{depth}")
    below = grn.job(type="nest")(nest)(place, mib, depth - 1) if depth else []
    del held
    return [os.environ["GRN_DEVICE"], *below]


def call_known(place: str, mib: int, gate: str) -> str:
    """Call `hold` as a job of the type that the tests call known; tell its device."""
    return grn.job(type="known")(hold)(place, mib, gate)


def surroundings() -> dict[str, str | None]:
    """Tell the environment of the job, and what was visible before its first line."""
    return {**os.environ, "VISIBLE_AT_IMPORT": VISIBLE_AT_IMPORT}


def loaded() -> list[str]:
    """Tell the modules a job process has loaded."""
    return sorted(sys.modules)


def family(place: str, own: int, child: int, grandchild: int, gate: str) -> int:
    """Hold memory while a child and its child do, each its own; tell one's own process."""
    held = grab(own)
    inner = f"from tests.e2e import grabbing as g; g.hold({place!r}, {grandchild}, {gate!r})"
    outer = (
        "import subprocess, sys; from tests.e2e import grabbing as g; "
        f"inner = subprocess.Popen([sys.executable, '-c', {inner!r}]); "
        f"g.hold({place!r}, {child}, {gate!r}); sys.exit(inner.wait())"
    )
    import subprocess

    note(place, "holds")
    done = subprocess.run([sys.executable, "-c", outer])
    assert done.returncode == 0
    del held
    return os.getpid()


def team(place: str, mib: int, members: int, gate: str) -> list[str]:
    """Hold memory in so many workers of a `multiprocessing` pool."""
    import multiprocessing

    fresh = multiprocessing.get_context("spawn")
    with fresh.Pool(members) as pool:
        # One task each: none is back before the gate opens.
        return pool.starmap(hold, [(place, mib, gate)] * members, chunksize=1)
