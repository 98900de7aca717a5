"""What other policies believe a job needs, as profiles that the core can ask."""

from functools import cache
from typing import Final

from grn_zmq.records import DeviceFacts

from ..cells import CellId, Key
from ..estimates import Estimate, Kind
from ..profiles import Observed, Profiles
from .describing import true_length_s, true_size_bytes
from .jobs import Stream

# The share of a device that the core keeps back where jobs share.
GUARD: Final = 0.01
# So many runs have a device to themselves before their largest peak is believed.
WHOLE_RUNS: Final = 3


@cache
def _exactly(lease_bytes: int) -> Estimate:
    return Estimate(lease_bytes, 0.0, 0.0, Kind.MEASURED, runs=100, sure_bytes=0)


def _part(device: DeviceFacts, fraction: float) -> Estimate:
    return _exactly(int(fraction * device.total_bytes * (1 - GUARD)))


class _Believed(Profiles):
    """A belief without doubt; how long jobs take plays no part in it."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()

    def doubts(self, key: Key, device_class: str) -> bool:
        return False

    def duration_s(self, key: Key, device_class: str) -> float | None:
        return None

    def solo_s(self, key: Key, device_class: str) -> float | None:
        return None


class WholeDevice(_Believed):
    """Every job gets a device."""

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        return _part(device, 1.0)


class DeclaredFractions(_Believed):
    """A job gets the fraction it is described by."""

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        return _part(device, float(key[0]))


class FirstPeak(_Believed):
    """The first peak that succeeded is believed for ever, without margin."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._peaks: dict[Key, int] = {}

    def observe(self, key: Key, device_class: str, observed: Observed) -> CellId:
        if observed.outcome == "succeeded":
            self._peaks.setdefault(key, observed.peak_bytes)
        return super().observe(key, device_class, observed)

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        peak = self._peaks.get(key)
        return None if peak is None else _exactly(peak)


class MaxSeen(_Believed):
    """The largest peak so far, after some runs with a device to themselves."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._peaks: dict[str, list[int]] = {}

    def observe(self, key: Key, device_class: str, observed: Observed) -> CellId:
        if observed.outcome == "succeeded":
            self._peaks.setdefault(key[0], []).append(observed.peak_bytes)
        return super().observe(key, device_class, observed)

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        peaks = self._peaks.get(key[0], [])
        if key[1] or len(peaks) < WHOLE_RUNS:  # a retry is marked by an argument
            return _part(device, 1.0)
        return _exactly(max(peaks))


class Oracle(Profiles):
    """Knows how large and how long every job will be."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()

    def observe(self, key: Key, device_class: str, observed: Observed) -> CellId:
        found = super().observe(key, device_class, observed)
        self.changed.discard(key[0])  # it has nothing to learn
        return found

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        return _exactly(min(true_size_bytes(key[0]), device.total_bytes))

    def duration_s(self, key: Key, device_class: str) -> float | None:
        return true_length_s(key[0])

    def solo_s(self, key: Key, device_class: str) -> float | None:
        return true_length_s(key[0])


class LengthlessOracle(Oracle):
    """Knows sizes only: first come, first served is sometimes the better order."""

    def duration_s(self, key: Key, device_class: str) -> float | None:
        return None
