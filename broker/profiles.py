"""What each job type was measured to need. In memory, streaming, from successes only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.records import Scalar

# The largest peak seen, times a margin that shrinks as evidence grows: of the rules replayed
# on 14,680 measured runs this one wasted least at under 2 % under-estimates.
BASE_MARGIN: Final = 0.03
YOUNG_MARGIN: Final = 0.12
# Measured on another model of device only: allocators take more on a larger card.
OTHER_CLASS_MARGIN: Final = 0.25
# A device never holds more jobs than this, however little they were seen to use: each
# process that touches a GPU costs a context even if it allocates nothing.
MOST_PER_DEVICE: Final = 100

Key = tuple[str, tuple[tuple[str, Scalar], ...]]


def key_of(job_type: str, by: Mapping[str, Scalar]) -> Key:
    """Give the cell of a job: its type and the arguments that change its need."""
    return job_type, tuple(sorted(by.items()))


@dataclass(slots=True)
class Peak:
    """Measured peaks of one cell on one model of device."""

    runs: int = 0
    max_bytes: int = 0


@dataclass(slots=True)
class Profiles:
    """All cells, each with its peaks per device class."""

    _cells: dict[Key, dict[str, Peak]] = field(default_factory=dict)

    def observe(self, key: Key, device_class: str, peak_bytes: int) -> None:
        """Learn from one run that succeeded."""
        peak = self._cells.setdefault(key, {}).setdefault(device_class, Peak())
        peak.runs += 1
        peak.max_bytes = max(peak.max_bytes, peak_bytes)

    def knows(self, key: Key) -> bool:
        return key in self._cells

    def need_bytes(self, key: Key, device_class: str) -> int:
        """The largest peak seen there, or where nothing was, on any other model."""
        cell = self._cells[key]
        if device_class in cell:
            return cell[device_class].max_bytes
        return max(peak.max_bytes for peak in cell.values())

    def lease_bytes(self, key: Key, device_class: str, total_bytes: int) -> int:
        """What to promise a job of a known cell on such a device."""
        need = self.need_bytes(key, device_class)
        peak = self._cells[key].get(device_class)
        margin = OTHER_CLASS_MARGIN if peak is None else BASE_MARGIN + YOUNG_MARGIN / peak.runs
        wanted = max(int(need * (1 + margin)), total_bytes // MOST_PER_DEVICE)
        # What was measured to fit an empty device must not be shut out by its own margin.
        return wanted if need > total_bytes else min(wanted, total_bytes)
