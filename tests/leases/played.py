"""A broker that a test plays for leases, and a thread in which the test's process acquires."""

from collections.abc import Callable
from concurrent.futures import Future as Promise
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grn_zmq as grn
from grn_zmq import wire
from grn_zmq.records import Begun, JobSpec, Released
from tests.builders import a_device, a_device_row, an_outcome
from tests.client.scripted import ScriptedBroker
from tests.conftest import forget_client
from tests.waiting import PATIENCE

LONG_S = 20 * PATIENCE
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
    "NV_GPU": "GPU-a,GPU-b",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "GRN_DEVICE": "nvml:1,nvml:3",
}


class Played:
    """A broker of ours, and a thread in which the test's process acquires."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self._threads = ThreadPoolExecutor(1)
        self._greeted = False

    def acquire(self, *args: Any, **options: Any) -> "Promise[grn.Lease]":
        return self.do(lambda: grn.acquire(*args, **options))

    def do(self, act: Callable[[], Any]) -> "Promise[Any]":
        promise = self._threads.submit(act)
        if not self._greeted:
            self.broker.welcome()
            self._greeted = True
        return promise

    def accept(self) -> JobSpec:
        """Hear what is asked for, and take it."""
        (spec,) = self.broker.hear(wire.Submit).jobs
        self.broker.accept(spec)
        return spec

    def grant(self, job_id: str) -> None:
        begun = Begun(job_id, 1, "nvml:1,3", False, VARIABLES, indices=(1, 3))
        self.broker.say(wire.Started((begun,)))

    def end(self, job_id: str, **changes: Any) -> None:
        facts = {"device": "nvml:1,3", "payload": b"", **changes}
        self.broker.end(an_outcome(1, job_id=job_id, **facts))

    def take_release(self) -> tuple[Released, ...]:
        """Hear that a lease is released, and say that it has ended."""
        released = self.broker.hear(wire.Release).runs
        for one in released:
            self.end(one.job_id)
        return released

    def answer_devices(self, count: int, **changes: Any) -> None:
        """Answer a question for devices with so many idle GPUs."""
        self.broker.hear(wire.AskDevices)
        rows = tuple(
            a_device_row(n, facts=a_device(n, kind="nvml", uuid=f"GPU-{n}"), jobs=0, **changes)
            for n in range(count)
        )
        self.broker.say(wire.DevicesAre(rows))

    def close(self) -> None:
        forget_client()
        self._threads.shutdown(wait=False)


def a_lease(played: Played, *args: Any, **options: Any) -> tuple[grn.Lease, JobSpec]:
    """A lease that was granted."""
    promise = played.acquire(*args, **options)
    spec = played.accept()
    played.grant(spec.job_id)
    return promise.result(LONG_S), spec


def let_go(played: Played, lease: grn.Lease) -> None:
    promise = played.do(lease.release)
    played.take_release()
    played.answer_devices(4)  # whether this process still shows there
    promise.result(LONG_S)


def let_go_of_lost(played: Played, lease: grn.Lease) -> None:
    promise = played.do(lease.release)
    played.broker.hear(wire.Release)
    played.answer_devices(4)
    promise.result(LONG_S)
