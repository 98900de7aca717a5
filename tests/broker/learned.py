"""Profiles that have seen runs, and what they say; sizes are in MiB."""

from typing import Any

from broker.cells import Cell, CellId, Key, key_of
from broker.estimates import Estimate
from broker.profiles import Observed, Profiles
from grn_zmq.records import DeviceFacts
from tests.builders import MIB, a_device

KEY = key_of("fit", {})


def a_card(total: int = 1000, device_class: str = "A100") -> DeviceFacts:
    return a_device(total=total, device_class=device_class)


def a_run(peak: int, outcome: str = "succeeded", asked: int = 0, **facts: Any) -> Observed:
    """A run that reached `peak` MiB and could not get `asked` MiB more."""
    return Observed(outcome, peak * MIB, asked_bytes=asked * MIB, **facts)


def profiles_of(*peaks: int, key: Key = KEY, device_class: str = "A100") -> Profiles:
    profiles = Profiles()
    learn(profiles, *peaks, key=key, device_class=device_class)
    return profiles


def learn(
    profiles: Profiles, *peaks: int, key: Key = KEY, device_class: str = "A100", **facts: Any
) -> None:
    for peak in peaks:
        profiles.observe(key, device_class, a_run(peak, **facts))


def estimate(profiles: Profiles, key: Key = KEY, **card: Any) -> Estimate:
    found = profiles.estimate(key, a_card(**card))
    assert found is not None
    return found


def lease(profiles: Profiles, key: Key = KEY, **card: Any) -> float:
    return estimate(profiles, key, **card).lease_bytes / MIB


def cell_of(profiles: Profiles, key: Key = KEY) -> Cell:
    return profiles.cell(CellId(*key, "A100"))
