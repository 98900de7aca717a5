"""`enforce=True`: the job that takes more than its lease fails, and not its neighbour."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import LONG_S, Machine, Scene, a_machine, learn
from tests.nvml.driver import TORCH_STUB

pytestmark = pytest.mark.e2e

KNOWN_MIB, TOO_MUCH_MIB = 200, 700
RUNS = 5


@pytest.fixture(scope="module", params=["nvml", "host"])
def machine(request: pytest.FixtureRequest, home: Path) -> Iterator[Machine]:
    """One device, and a torch that uses it where it is a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TORCH_STUB))
        with a_machine(request.param, home, 1000) as machine:
            yield machine


def hold(place: str, mib: int, gate: str = "") -> str:
    """Take memory as programs do: of a GPU through torch, which can be held to a cap."""
    if not os.environ["GRN_DEVICE"].startswith("nvml"):
        return grabbing.hold(place, mib, gate)
    import torch

    held: Any = torch.empty(mib << 18, device="cuda")
    grabbing.note(place, "holds")
    grabbing.wait_at(place, gate)
    del held
    return os.environ["GRN_DEVICE"]


def test_the_over_user_fails_and_its_neighbour_does_not(machine: Machine, scene: Scene) -> None:
    capped = grn.job(type="capped", enforce=True, oom_retries=0)(hold)
    learn(capped, scene.place, machine.mib(KNOWN_MIB), RUNS)  # each held to what was known
    gate = scene.close_gate()
    neighbour = capped.submit(scene.place, machine.mib(KNOWN_MIB), gate)
    scene.await_notes("holds", RUNS + 1)

    error = capped.submit(scene.place, machine.mib(TOO_MUCH_MIB)).exception(LONG_S)
    scene.open_gate()

    assert isinstance(error, MemoryError | RuntimeError), error
    assert "grn: capped at " in "".join(error.__notes__)
    assert "(enforce=True)" in "".join(error.__notes__)
    assert neighbour.result(LONG_S) == f"{machine.kind}:0"
