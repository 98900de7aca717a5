"""What `grn doctor` asks of devices, as JSON: only workers speak to the driver.

Run as a process of its own, which is also how a fresh interpreter is seen: one that has more
than a single thread before anything of ours runs is not safe to fork.
"""

import json
import os
from typing import Any

from grn_zmq.errors import GrnError

from .devices.gpus import Gpu
from .devices.memory import available_bytes, kernel_kills, physical_bytes
from .proctree import start_time


def look() -> dict[str, Any]:
    """Look once at everything."""
    threads = len(os.listdir("/proc/self/task"))
    return {
        "threads": threads,
        "physical_bytes": physical_bytes(),
        "available_bytes": available_bytes(),
        "kernel_kills": kernel_kills(),
        **_driver(),
    }


def _driver() -> dict[str, Any]:
    """Give the GPUs, or why there are none; `absent` if there is no driver at all."""
    from .devices.nvml import NoDriver, list_gpus  # loads the driver's library

    try:
        return {"gpus": [_gpu(gpu) for gpu in list_gpus()], "error": "", "absent": False}
    except NoDriver as error:
        return {"gpus": [], "error": str(error), "absent": error.absent}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    from .devices.nvml import NvmlDevice

    facts: dict[str, Any] = {"index": gpu.index, "partitioned": gpu.partitioned}
    try:
        device = NvmlDevice(gpu.uuid)
        try:
            held = device.sample({}).processes
        finally:
            device.close()
    except GrnError as error:
        return {**facts, "name": "", "total_bytes": 0, "processes": [], "error": str(error)}
    return {
        **facts,
        "name": device.info.name,
        "total_bytes": device.info.total_bytes,
        # Whether a process that the driver lists exists where we are.
        "processes": [
            {"pid": pid, "used_bytes": count, "here": start_time(pid) is not None}
            for pid, count in held.items()
        ],
        "error": "",
    }


if __name__ == "__main__":
    print(json.dumps(look()))
