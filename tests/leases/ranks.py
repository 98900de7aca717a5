"""A data-parallel program: a parent that leases, and a rank for each device, spawned."""

import multiprocessing
import os
import sys

import grn_zmq as grn
from tests.nvml import cuda


def work(rank: int, gate: str) -> None:
    """Use the device of this rank, as DDP does with `torch.cuda.set_device(rank)`."""
    cuda.alloc(100 + rank, rank)
    print("rank", rank, os.getpid(), flush=True)
    with open(gate) as waits:
        waits.read()


def main(gate: str) -> None:
    with grn.acquire(2) as lease:
        print("parent", *lease.devices, os.getpid(), flush=True)
        fresh = multiprocessing.get_context("spawn")
        ranks = [fresh.Process(target=work, args=(rank, gate)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()


if __name__ == "__main__":
    main(sys.argv[1])
