"""Measure a job type by a shorter run of it, so that the first long run need not be alone.

A type never seen runs alone on a device until its peak is known. Training takes the same
memory in its first step as in its last, so a few steps of it are as good a measurement.

grn start --detach
python examples/measure_with_a_shorter_run.py
"""

import os
import time

import grn_zmq as grn

MIB = 1 << 20


@grn.job(type="example/long-training")
def train(seed: int, steps: int = 40) -> str:
    batch = bytearray(b"\1") * (48 * MIB)
    for _ in range(steps):
        batch[seed % len(batch)] ^= 1
        time.sleep(0.05)
    return f"seed {seed}: {steps} steps on {os.environ['GRN_DEVICE']}"


@train.profile
def _(seed: int, steps: int = 40) -> None:
    """Gets the arguments of the call it stands in for; what it returns is dropped."""
    print("measuring one step instead of the first run")
    train.local(seed, steps=1)


if __name__ == "__main__":
    began = time.monotonic()
    for line in train.map(range(4)):
        print(line)
    print(f"4 runs of 2 s took {time.monotonic() - began:.1f} s")
