"""Frameworks that cannot be had without a GPU, by what they offer: TensorFlow and JAX."""

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from grn_zmq import caps
from grn_zmq.caps import Cap
from grn_zmq.frameworks import Counters, counters
from grn_zmq.units import GIB, MIB

CAP = Cap(3 * GIB, 8 * GIB, on_host=False)


@dataclass
class Config:
    """`tensorflow.config`, as far as caps need it."""

    used: bool = False
    limits: dict[str, list[int]] = field(default_factory=dict)

    def LogicalDeviceConfiguration(self, memory_limit: int) -> int:  # noqa: N802
        return memory_limit

    def list_physical_devices(self, kind: str) -> list[str]:
        return [f"{kind}:0"]

    def set_logical_device_configuration(self, device: str, limits: list[int]) -> None:
        if self.used:
            raise RuntimeError("Virtual devices cannot be modified after being initialized")
        self.limits[device] = limits


def a_module(monkeypatch: pytest.MonkeyPatch, name: str, **facts: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(facts)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(autouse=True)
def nothing_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps._Now, "tensorflow_capped", False)


def test_tensorflow_gets_its_limit_in_mebibytes_and_its_process_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config()
    a_module(monkeypatch, "tensorflow", config=config)

    with caps.capped(CAP):
        pass

    assert config.limits == {"GPU:0": [3 * 1024]}
    assert not caps.can_be_lifted()


@pytest.mark.parametrize("facts", [{"config": Config(used=True)}, {}])
def test_a_tensorflow_that_refuses_is_left_alone(
    facts: dict[str, Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_module(monkeypatch, "tensorflow", **facts)

    with caps.capped(CAP):
        pass

    assert caps.can_be_lifted()


class Device:
    """A device of JAX; those of the CPU have no figures."""

    def __init__(self, figures: dict[str, int] | None) -> None:
        self._figures = figures

    def memory_stats(self) -> dict[str, int] | None:
        return self._figures


def jax(monkeypatch: pytest.MonkeyPatch, *devices: Device, awake: bool = True) -> None:
    a_module(monkeypatch, "jax", local_devices=lambda: devices)
    a_module(monkeypatch, "jax._src.xla_bridge", backends_are_initialized=lambda: awake)


def test_the_pools_of_jax_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"pool_bytes": 5 * MIB, "peak_pool_bytes": 7 * MIB, "peak_bytes_in_use": 4 * MIB}
    other = {"pool_bytes": 2 * MIB, "peak_bytes_in_use": MIB}
    older = {"bytes_in_use": MIB, "peak_bytes_in_use": MIB}
    jax(monkeypatch, Device(one), Device(other), Device(older), Device(None))

    assert counters() == Counters(7 * MIB, 9 * MIB, 5 * MIB)


def test_a_jax_that_sleeps_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    jax(monkeypatch, Device({"pool_bytes": 5, "peak_bytes_in_use": 5}), awake=False)

    assert counters() == Counters()


def test_a_framework_that_breaks_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a_module(monkeypatch, "torch.cuda")
    a_module(monkeypatch, "jax._src.xla_bridge")

    assert counters() == Counters()
