"""Run a function in a service with several GPUs, and keep what it prints in files.

What a job prints appears here while it runs, stdout and stderr apart. So it goes wherever
this program sends its own output.

grn start --detach --environments examples/services/services.toml
python examples/services/run_there.py plain --gpus 2 > out.txt 2> err.txt
"""

import argparse
import os
import sys
import time

import grn_zmq as grn


def train(epochs: int) -> float:
    """Stands for data-parallel training: it sees its devices as 0, 1, …"""
    devices = os.environ["GRN_DEVICE"].split(",")
    print(f"training on {len(devices)} devices: {', '.join(devices)}")
    loss = 1.0
    for epoch in range(1, epochs + 1):
        time.sleep(0.1)
        loss /= 1 + len(devices)
        print(f"epoch {epoch}: loss {loss:.4f}")
    print("done", file=sys.stderr)
    return loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("service", help="as `grn environments` lists it")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()

    there = grn.job(environment=given.service, gpus=given.gpus, type="train there")(train)
    print(f"final loss {there(given.epochs):.4f}")
