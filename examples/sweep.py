"""A grid of twelve training jobs that share the devices of this machine.

Nobody says how much memory a job needs. The very first job runs alone and is measured;
from it the need of other widths is estimated, and corrected as they are measured in turn.
The second sweep, with every width known, shares from its first moment; so does the first
one of the next run, because what was learned is kept.

grn run "python examples/sweep.py"      starts what is missing, and stops it afterwards
python examples/sweep.py                with a broker that runs already (grn start)
"""

import contextlib
import os
import random
import time
from dataclasses import dataclass
from typing import Any

import grn_zmq as grn

WIDTHS = (32, 64, 96)
RATES = (0.02, 0.1, 0.3, 2.5)
STEPS = 60
MIB = 1 << 20


@grn.job(by=("width",))  # the width changes the memory need, the rate does not
def train(width: int, rate: float) -> tuple[float, float, float]:
    """Fit a line to noisy points; return the last loss, and when the run began and ended."""
    began = time.monotonic()
    weights = allocate(width * MIB)
    points = random.Random(width)
    slope, loss = 0.0, 0.0
    for _ in range(STEPS):
        time.sleep(0.02)  # the next batch is on its way: a job seldom fills its device
        xs = [points.uniform(-1, 1) for _ in range(32)]
        errors = [slope * x - (3 * x + points.gauss(0, 0.1)) for x in xs]
        loss = sum(error * error for error in errors) / len(errors)
        slope -= rate * sum(2 * e * x for e, x in zip(errors, xs, strict=True)) / len(xs)
    del weights
    return loss, began, time.monotonic()


def allocate(size: int) -> Any:
    """Take memory where the job was placed: on its GPU if torch is there, or on the host."""
    if os.environ["GRN_DEVICE"].startswith("nvml"):
        with contextlib.suppress(ImportError):
            import torch

            return torch.ones(size // 4, device="cuda")
    return bytearray(b"\1") * size  # written to, so that it is really there


@dataclass
class Ran:
    """One finished job, and what the broker says about it."""

    width: int
    rate: float
    loss: float
    began: float
    ended: float
    device: str
    predicted_bytes: int
    peak_bytes: int
    wait_s: float
    run_s: float


def sweep() -> list[Ran]:
    """Submit the whole grid at once and wait for it."""
    grid = [(width, rate) for rate in RATES for width in WIDTHS]
    futures = [train.submit(width, rate) for width, rate in grid]
    ran = []
    for (width, rate), future in zip(grid, futures, strict=True):
        loss, began, ended = future.result()
        facts = future.outcome
        assert facts is not None  # it has ended
        ran.append(
            Ran(
                width,
                rate,
                loss,
                began,
                ended,
                facts.device,
                facts.predicted_bytes,
                facts.peak_bytes,
                facts.wait_s,
                facts.run_s,
            )
        )
    return sorted(ran, key=lambda job: job.began)


def most_at_once(jobs: list[Ran]) -> int:
    """The most jobs that ran at the same moment."""
    return max(sum(job.began <= one.began < job.ended for job in jobs) for one in jobs)


def one_at_a_time(jobs: list[Ran], devices: int) -> float:
    """How long the same runs take if each device has one job at a time."""
    free_at = [0.0] * devices
    for job in jobs:
        free_at[free_at.index(min(free_at))] += job.run_s
    return max(free_at)


def print_table(jobs: list[Ran]) -> None:
    print("width  rate  device  predicted        peak   waited     ran    loss")
    for job in jobs:
        known = f"{job.predicted_bytes / MIB:5.1f} MiB" if job.predicted_bytes else "        -"
        peak = f"{job.peak_bytes / MIB:5.1f} MiB"
        times = f"{job.wait_s:5.1f} s  {job.run_s:4.1f} s"
        place = f"{job.width:5}  {job.rate:4}  {job.device:<7}"
        print(f"{place} {known}  {peak}  {times}  {job.loss:6.4f}")


def print_summary(jobs: list[Ran], took: float) -> None:
    devices = sorted({job.device for job in jobs})
    for device in devices:
        here = [job for job in jobs if job.device == device]
        print(f"{device}: {len(here)} jobs, at most {most_at_once(here)} at once")
    alone = one_at_a_time(jobs, len(devices))
    print(f"took {took:.1f} s; with one job at a time on each device {alone:.1f} s")


def main() -> None:
    for title in ("First sweep", "Second sweep: every width is known"):
        print(f"\n{title}", flush=True)
        began = time.monotonic()
        jobs = sweep()
        took = time.monotonic() - began
        print_table(jobs)
        print_summary(jobs, took)
    best = min(jobs, key=lambda job: job.loss)
    print(f"\nBest: width {best.width}, rate {best.rate}, loss {best.loss:.4f}")


if __name__ == "__main__":
    main()
