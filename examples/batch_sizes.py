"""Memory that follows an argument: after a few batch sizes the others are predicted.

by=("batch_size",) names the argument. Runs of some sizes are measured; a size in between is
promised what a line through them says, one beyond them is treated with more caution. The
table shows what was predicted beside what each run then took.

grn run "python examples/batch_sizes.py"
"""

import contextlib
import os
import time
from typing import Any

import grn_zmq as grn

MIB = 1 << 20
MODEL_MIB = 24
MIB_PER_SAMPLE = 1


@grn.job(by=("batch_size",))
def train(batch_size: int) -> int:
    """Hold a model and a batch for a moment; return how much that is, in MiB."""
    size = MODEL_MIB + MIB_PER_SAMPLE * batch_size
    held = allocate(size * MIB)
    time.sleep(0.3)
    del held
    return size


def allocate(size: int) -> Any:
    """Take memory where the job was placed: on its GPU if torch is there, or on the host."""
    if os.environ["GRN_DEVICE"].startswith("nvml"):
        with contextlib.suppress(ImportError):
            import torch

            return torch.ones(size // 4, device="cuda")
    return bytearray(b"\1") * size  # written to, so that it is really there


def show(title: str, sizes: tuple[int, ...]) -> None:
    print(f"\n{title}\nbatch size   predicted        peak  attempts")
    for size, future in [(size, train.submit(size)) for size in sizes]:
        future.result()
        facts = future.outcome
        assert facts is not None  # it has ended
        known = f"{facts.predicted_bytes / MIB:5.1f} MiB" if facts.predicted_bytes else "-"
        peak = f"{facts.peak_bytes / MIB:5.1f} MiB"
        print(f"{size:10}   {known:>9}   {peak:>9}  {facts.attempts:8}", flush=True)


if __name__ == "__main__":
    show("Three sizes are measured", (8, 64, 128))
    show("Sizes in between are known by now", (16, 48, 96, 112))
