"""A GPU that falls off the bus while jobs come and go, and comes back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import LONG_S, Machine, Scene, a_machine, learn
from tests.waiting import until

pytestmark = pytest.mark.e2e

UNREADABLE = "could not read the device"

known = grn.job(type="known")(grabbing.hold)


@grn.job(type="known")
def device_of() -> str:
    """Tell the device without touching it: a lost GPU would make that fail."""
    return os.environ["GRN_DEVICE"]


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """Two GPUs of 1000 MiB, and a type that was learned to need 100."""
    with a_machine("nvml", home, 1000, 1000) as machine:
        learn(known, str(home), 100)
        yield machine


def test_a_lost_gpu_gets_no_jobs_until_it_is_back_and_the_other_goes_on(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    held = known.submit(scene.place, 100, gate)
    (holding,) = scene.await_notes("holds", 1)
    there = holding.device
    other = "nvml:1" if there == "nvml:0" else "nvml:0"
    assert device_of() == other  # the emptier one

    machine.gpus.lose(int(other[-1]))

    # Jobs keep coming, and none of them is a sign of life of the GPU.
    until(lambda: device_of() == there, 20)
    assert {device_of() for _ in range(5)} == {there}
    assert machine.server.log().count(UNREADABLE) == 1

    machine.gpus.lose(int(other[-1]), lost=False)

    until(lambda: device_of() == other, 20)
    assert machine.server.log().count("the device can be read again") == 1
    assert machine.server.log().count(UNREADABLE) == 1
    scene.open_gate()
    assert held.result(LONG_S) == there
