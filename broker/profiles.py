"""What each job type was measured to need: learns from every end, forgets nothing by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import le
from typing import Final

from grn_zmq.records import DeviceFacts, Scalar

from .cells import By, Cell, CellId, Key
from .estimates import (
    UNTOLD_STEP,
    Estimate,
    Kind,
    above_bound,
    bounded,
    from_cell,
    from_failures,
    from_prior,
    from_settled,
    from_stand_in,
    on_other_class,
    split,
)
from .ledger import MOST_PER_DEVICE
from .models import Model

# Of one type; a learning rate in `by=` would otherwise fill the memory. The oldest go.
MOST_CELLS: Final = 200
# Types in all; those not seen for longest go.
MOST_TYPES: Final = 10_000
# Other code: the old figures count as much as this many runs of it.
TRUST_AFTER_CHANGE: Final = 2
# A bound, or the largest peak of other code, that no later run comes near shrinks with each
# success by this.
DECAY: Final = 0.9

_OF_SUCCESS: Final = "succeeded"


@dataclass(frozen=True, slots=True)
class Observed:
    """One run that has ended, as far as learning is concerned.

    `culprit` says that an out-of-memory was the job's own doing; `alone` that nobody shared
    the device with it; `stand_in` that its cheaper stand-in ran.
    """

    outcome: str
    peak_bytes: int
    need_bytes: int = 0
    asked_bytes: int = 0
    run_s: float = 0.0
    utilisation: float = 0.0
    mean_utilisation: float = 0.0
    seen: bool = True
    alone: bool = False
    culprit: bool = True
    stand_in: bool = False


class Profiles:
    """All cells, by job type, arguments and device class, and what follows from them."""

    def __init__(self) -> None:
        # Types whose estimates are no longer what they were; whoever keeps some empties it.
        self.changed: set[str] = set()
        self._types: dict[str, dict[By, dict[str, Cell]]] = {}
        self._versions: dict[str, str] = {}
        self._settled: dict[tuple[Key, str], int] = {}
        self._estimates: dict[str, dict[tuple[By, str, int], Estimate | None]] = {}
        self._models: dict[str, dict[tuple[By, str], Model | None]] = {}

    def __iter__(self) -> Iterator[tuple[CellId, Cell]]:
        for job_type, cells in self._types.items():
            for by, classes in cells.items():
                for device_class, cell in classes.items():
                    yield CellId(job_type, by, device_class), cell

    def restore(self, cell_id: CellId, cell: Cell) -> None:
        """Take over what an earlier broker knew, or somebody put."""
        if version := self._versions.get(cell_id.job_type):
            _doubt(cell, version)
        self._of(cell_id.job_type, cell_id.by)[cell_id.device_class] = cell
        self._change(cell_id.job_type)

    def forget(self, job_type: str) -> int:
        """Forget a type; say how many cells it had."""
        cells = self._types.pop(job_type, {})
        self._versions.pop(job_type, None)
        for key in [key for key in self._settled if key[0][0] == job_type]:
            del self._settled[key]
        self._change(job_type)
        return sum(map(len, cells.values()))

    def note_version(self, job_type: str, version: str) -> None:
        """Trust what was measured of other code less; never erase it."""
        if not version or self._versions.get(job_type) == version:
            return
        self._versions[job_type] = version
        for classes in self._types.get(job_type, {}).values():
            for cell in classes.values():
                _doubt(cell, version)
        self._change(job_type)

    def observe(self, key: Key, device_class: str, observed: Observed) -> CellId:
        """Learn from one run: a success is a sample, any other end a lower bound."""
        job_type, by = key
        cells = self._of(job_type, by)
        cell = cells.setdefault(device_class, Cell())
        cell.version = self._versions.get(job_type, cell.version)
        self._settled.pop((key, device_class), None)
        if observed.outcome == _OF_SUCCESS and observed.stand_in:
            cell.stand_in_bytes = max(1, observed.peak_bytes)
        elif observed.outcome == _OF_SUCCESS:
            _learn_success(cell, observed)
        elif observed.outcome == "oom":
            cell.ooms += 1
            cell.bound_bytes = max(cell.bound_bytes, _bound_of_oom(observed))
        elif observed.outcome in ("failed", "killed"):
            cell.failures += 1
            cell.bound_bytes = max(cell.bound_bytes, observed.peak_bytes)
        self._change(job_type)
        return CellId(job_type, by, device_class)

    def note_growth(self, key: Key, device_class: str, used_bytes: int) -> None:
        """A running job has outgrown its promise: its like will need as much."""
        cell = self._of(*key).setdefault(device_class, Cell())
        if used_bytes > cell.bound_bytes:
            cell.bound_bytes = used_bytes
            self._change(key[0])

    def note_settled(self, key: Key, device_class: str, used_bytes: int) -> None:
        """A measuring run grows no more: its like may start by what it uses."""
        at = (key, device_class)
        self._settled[at] = max(self._settled.get(at, 0), used_bytes)
        self._change(key[0])

    def cell(self, cell_id: CellId) -> Cell:
        return self._types[cell_id.job_type][cell_id.by][cell_id.device_class]

    def doubts(self, key: Key, device_class: str) -> bool:
        """Whether runs outgrew every success there: the estimate is yet to be confirmed."""
        cell = self._types.get(key[0], {}).get(key[1], {}).get(device_class)
        return cell is not None and cell.bound_bytes > cell.max_bytes

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        """What such a job is expected to need there; None if it must be measured first.

        Args:
            memory_bytes: What the user declared; counts until something was measured.
        """
        job_type, by = key
        known = self._estimates.setdefault(job_type, {})
        at = (by, device.device_class, device.total_bytes)
        if at not in known:
            found = self._estimate(key, device.device_class)
            known[at] = None if found is None else _within(found, device.total_bytes)
        found = known[at]
        if memory_bytes and (found is None or found.kind is Kind.BOUND):
            # What was declared stands until a run succeeded, unless runs have outgrown it.
            cell = self._types.get(job_type, {}).get(by, {}).get(device.device_class, Cell())
            return _within(above_bound(from_prior(memory_bytes), cell), device.total_bytes)
        return found

    def _estimate(self, key: Key, device_class: str) -> Estimate | None:
        job_type, by = key
        cells = self._types.get(job_type, {})
        mine = cells.get(by, {})
        cell = mine.get(device_class, Cell())
        if found := from_cell(cell) or self._modelled(job_type, cells, by, device_class):
            return bounded(above_bound(found, cell))
        elsewhere = [one for one in map(from_cell, mine.values()) if one is not None]
        if elsewhere:
            largest = max(elsewhere, key=lambda one: one.lease_bytes)
            return above_bound(on_other_class(largest), cell)
        if found := from_stand_in(cell):
            return found
        if settled := self._settled.get((key, device_class)):
            return above_bound(from_settled(settled), cell)
        return from_failures(cell)

    def predict(self, cell_id: CellId) -> Estimate | None:
        """What such a job is expected to need on such a device, however large it is."""
        return self._estimate((cell_id.job_type, cell_id.by), cell_id.device_class)

    def largest_below(
        self, key: Key, device_class: str
    ) -> tuple[Mapping[str, Scalar], int] | None:
        """The arguments that did fit and took most, of those with no larger number."""
        group, numbers = split(key[1])
        fitting: list[tuple[int, By]] = []
        for by, classes in self._types.get(key[0], {}).items():
            theirs, at = split(by)
            smaller = theirs == group and all(map(le, at, numbers)) and at != numbers
            if smaller and device_class in classes and classes[device_class].runs:
                fitting.append((classes[device_class].max_bytes, by))
        if not fitting:
            return None
        peak_bytes, by = max(fitting, key=lambda one: one[0])
        return dict(by), peak_bytes

    def _modelled(
        self, job_type: str, cells: dict[By, dict[str, Cell]], by: By, device_class: str
    ) -> Estimate | None:
        """Estimate from runs with other numbers; one model serves all that ask."""
        group, numbers = split(by)
        if not numbers:
            return None
        models = self._models.setdefault(job_type, {})
        if (group, device_class) not in models:
            others = {
                at: classes[device_class]
                for (theirs, at), classes in ((split(one), c) for one, c in cells.items())
                if theirs == group and device_class in classes
            }
            models[group, device_class] = Model.of(others)
        model = models[group, device_class]
        return None if model is None else model.estimate(numbers)

    def duration_s(self, key: Key, device_class: str) -> float | None:
        """How long such a job takes: the mean of its last two runs, or of some of its type.

        Args:
            device_class: Where; any, if empty.
        """
        cells = self._types.get(key[0], {})
        for classes in (cells.get(key[1], {}), *cells.values()):
            known = [
                cell.duration_s
                for one, cell in classes.items()
                if cell.last_s and device_class in ("", one)
            ]
            if known:
                return sum(known) / len(known)
        return None

    def solo_s(self, key: Key, device_class: str) -> float | None:
        """How long such a job takes with the device to itself."""
        cell = self._types.get(key[0], {}).get(key[1], {}).get(device_class)
        return cell.solo_s if cell is not None and cell.solo_s else None

    def young(self, key: Key, device_class: str) -> bool:
        """Whether too little is known to look at its runs only now and then."""
        cell = self._types.get(key[0], {}).get(key[1], {}).get(device_class)
        return cell is None or cell.trust <= TRUST_AFTER_CHANGE

    def _of(self, job_type: str, by: By) -> dict[str, Cell]:
        cells = self._types[job_type] = self._types.pop(job_type, {})  # seen last
        cells[by] = cells.pop(by, {})
        while len(cells) > MOST_CELLS:
            del cells[next(iter(cells))]
        while len(self._types) > MOST_TYPES:
            self.forget(next(iter(self._types)))
        return cells[by]

    def _change(self, job_type: str) -> None:
        self._estimates.pop(job_type, None)
        self._models.pop(job_type, None)
        self.changed.add(job_type)


def _doubt(cell: Cell, version: str) -> None:
    """Other code than was measured: count the figures as a few runs; failures not at all."""
    if cell.version and cell.version != version:
        trust = min(cell.trust, TRUST_AFTER_CHANGE)
        cell.squares *= trust / max(1, cell.trust)
        cell.trust = trust
        cell.failures = cell.ooms = 0
    cell.version = version


def _learn_success(cell: Cell, observed: Observed) -> None:
    if observed.seen or cell.runs == 0:  # an unseen run teaches no level
        cell.runs += 1
        cell.trust += 1
        step = observed.peak_bytes - cell.mean_bytes
        cell.mean_bytes += step / cell.trust
        cell.squares += step * (observed.peak_bytes - cell.mean_bytes)
        faded = cell.max_bytes if cell.trust == cell.runs else int(cell.max_bytes * DECAY)
        cell.max_bytes = max(faded, observed.peak_bytes)
        cell.need_bytes = max(cell.need_bytes, observed.need_bytes)
        if cell.bound_bytes > cell.max_bytes:
            cell.bound_bytes = max(cell.max_bytes, int(cell.bound_bytes * DECAY))
    cell.stand_in_bytes = 0
    cell.before_s, cell.last_s = cell.last_s, observed.run_s
    if observed.alone:
        solo = cell.solo_s or observed.run_s
        cell.solo_s = (solo + observed.run_s) / 2
    cell.utilisation = max(cell.utilisation, observed.utilisation)
    cell.mean_utilisation += (observed.mean_utilisation - cell.mean_utilisation) / cell.runs


def _bound_of_oom(observed: Observed) -> int:
    """At least what it had and asked for; a victim only what it had."""
    if observed.asked_bytes:
        return observed.peak_bytes + observed.asked_bytes
    return int(observed.peak_bytes * (UNTOLD_STEP if observed.culprit else 1.0))


def _within(estimate: Estimate, total_bytes: int) -> Estimate:
    """What is not known to exceed the device must not be shut out by its own margin."""
    lease = max(estimate.lease_bytes, total_bytes // MOST_PER_DEVICE, 1)
    beyond = lease > total_bytes >= estimate.sure_bytes
    return replace(
        estimate,
        lease_bytes=total_bytes if beyond else lease,
        beyond=beyond,
        expected_bytes=estimate.lease_bytes,
    )
