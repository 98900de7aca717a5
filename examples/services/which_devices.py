"""Ask a service which devices it has: by its name, without knowing where it runs.

grn start --detach --environments examples/services/services.toml
python examples/services/which_devices.py plain
python examples/services/which_devices.py plain --gpus 2
"""

import argparse
import os
import platform
import sys

import grn_zmq as grn


def describe() -> dict[str, str]:
    """Say who answers, and what it was given; runs in the environment of the service."""
    return {
        "interpreter": sys.prefix,
        "python": platform.python_version(),
        "devices": os.environ["GRN_DEVICE"],
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "-"),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("service", help="as `grn environments` lists it")
    parser.add_argument("--gpus", type=int, default=1)
    given = parser.parse_args()

    ask = grn.job(environment=given.service, gpus=given.gpus, timeout=0)(describe)
    try:
        for name, value in ask().items():
            print(f"{name:12} {value}")
    except grn.WaitTimeout as error:  # nobody offers it, or no device is free now
        sys.exit(str(error))
