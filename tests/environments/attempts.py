"""Builders for attempts that run in environments."""

from dataclasses import replace
from typing import Any

from grn_zmq.environments import Request
from grn_zmq.records import Leased

GPUS = (Leased("GPU-a", 0, "nvml:0"), Leased("GPU-c", 2, "nvml:2"))
SHARE = Leased("HOST-0", 0, "host:0")


def a_request(**changes: Any) -> Request:
    """An attempt of a user of this machine, in a directory of theirs, without a device."""
    request = Request(name="grn-7-1", uid=1000, gid=100, cwd="/home/me/work")
    return replace(request, **changes)
