"""What a fork does before it serves."""

import sys
from types import SimpleNamespace

import pytest

from grn_zmq import zygote


def test_generators_that_were_loaded_before_the_fork_are_seeded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeded: list[str] = []
    numpy_random = SimpleNamespace(seed=lambda: seeded.append("numpy"))
    generator = SimpleNamespace(seed=lambda: seeded.append("torch"))
    monkeypatch.setitem(sys.modules, "numpy.random", numpy_random)
    monkeypatch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(default_generator=generator),
    )

    zygote.reseed()

    assert seeded == ["numpy", "torch"]


def test_a_library_that_cannot_be_seeded_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())

    zygote.reseed()
