"""Jobs that take memory over time. Imports little: what a job imports, it waits for."""

import os
import time

from tests.e2e import grabbing
from tests.nvml import cuda

# Memory that is given back must have been there for so long: shorter peaks may not be seen.
SEEN_S = 0.2


def take(place: str, mib: int) -> None:
    """Take memory of the GPU until the process ends; what is refused is noted."""
    try:
        cuda.alloc(mib)
    except cuda.OutOfMemoryError:
        grabbing.note(place, "oom")
        raise


def climb(place: str, mib: int, seconds: float, steps: int = 2, step_s: float = 0.3) -> str:
    """Take memory in equal steps, and keep the last until the process ends; tell the device."""
    began = time.monotonic()
    for step in range(steps):
        if step:
            time.sleep(step_s)
        take(place, mib * (step + 1) // steps - mib * step // steps)
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    return os.environ["GRN_DEVICE"]


def climb_and_free(
    place: str, mib: int, seconds: float, steps: int = 2, step_s: float = 0.0
) -> str:
    """The same, but give the memory back at the end, so that the process is used again."""
    device = climb(place, mib, seconds, steps, step_s)
    cuda.free()
    return device


def climb_late(place: str, mib: int, after_s: float) -> tuple[str, float, float]:
    """Take memory only some time after the start; tell the device, the start and the end."""
    began = time.monotonic()
    time.sleep(after_s)
    take(place, mib)
    return os.environ["GRN_DEVICE"], began, time.monotonic()


def borrow(place: str, mib: int, gate: str = "") -> tuple[float, float]:
    """Hold memory until the gate opens and give it back; tell the start and the end."""
    began = time.monotonic()
    take(place, mib)
    grabbing.note(place, "holds")
    grabbing.wait_at(place, gate)
    time.sleep(max(0.0, began + SEEN_S - time.monotonic()))
    cuda.free()
    return began, time.monotonic()


def fail_holding(place: str, mib: int, gate: str = "") -> None:
    """Hold memory until the gate opens, then raise."""
    take(place, mib)
    grabbing.note(place, "holds")
    grabbing.wait_at(place, gate)
    raise ValueError("nothing to do with memory")


def run_out_by_text(place: str, mib: int, asks: str) -> None:
    """Hold memory and fail as torch does when it cannot get as much more."""
    take(place, mib)
    raise RuntimeError(f"CUDA out of memory. Tried to allocate {asks}. GPU 0 is full.")


def train(place: str, batch_size: int, mib_each: int = 50) -> str:
    """Take memory for one item after the other."""
    for _ in range(batch_size):
        take(place, mib_each)
    return os.environ["GRN_DEVICE"]


def limit_itself(place: str, share: float, gate: str = "") -> str:
    """Have torch hold itself to a share of the GPU, and take all of that."""
    import torch

    torch.cuda.set_per_process_memory_fraction(share)
    held = []
    try:
        while True:
            held.append(torch.empty(4 << 20, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        grabbing.note(place, "holds")
    grabbing.wait_at(place, gate)
    return os.environ["GRN_DEVICE"]


def really(place: str, light_mib: int, true_mib: int, gate: str = "") -> None:
    """Take what the job takes in truth."""
    take(place, true_mib)
    grabbing.note(place, "real")
    grabbing.wait_at(place, gate)


def lightly(place: str, light_mib: int, true_mib: int, gate: str = "") -> None:
    """Stand in for `really` with other memory, and do not wait."""
    take(place, light_mib)
    grabbing.note(place, "light")
