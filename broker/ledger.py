"""Who has been promised which bytes of a device. All arithmetic is per device, never a sum."""

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.records import DeviceFacts, DeviceProcess
from grn_zmq.units import MIB

from .cells import Key
from .estimates import Estimate, Kind

NOBODY: Final[Set[str]] = frozenset()

# A device never holds more jobs than this, however little they were seen to use: each
# process that touches a GPU costs a context even if it allocates nothing.
MOST_PER_DEVICE: Final = 100
# Left free where jobs share: fragments and contexts that nobody counts.
GUARD_BYTES: Final = 256 * MIB
GUARD_PART: Final = 100
# Strangers grow too; nothing is known of how.
FOREIGN_SPREAD: Final = 0.05
# Fewer jobs than this on average, and a job was alone: one in twenty parts of the time.
ALONE_COMPANY: Final = 1.05
# Growth smaller than this part of what a job uses is noise of its allocator.
GROWTH: Final = 1.02


@dataclass(slots=True)
class Lease:
    """Bytes of one device promised to one attempt, from grant to end.

    Its ancestors, who wait for it, may be `beside` it even while it is measured; where it
    would otherwise wait for itself, their bytes were `uncounted` at the grant. It is `shared`
    once anybody else had a lease here at the same time.
    """

    job_id: str
    attempt: int
    lease_bytes: int
    key: Key
    measuring: bool = False
    used_bytes: int = 0
    most_used_bytes: int = 0
    beside: Set[str] = NOBODY
    uncounted: Set[str] = NOBODY
    estimate: Estimate | None = None
    alone: bool = False
    shared: bool = False
    settled: bool = False
    granted_at: float = 0.0
    grown_at: float = 0.0
    # When something was last seen to happen on the device for its holder.
    used_at: float = 0.0
    grown_to_bytes: int = 0
    job_seconds: float = 0.0
    # Of the process that runs the body, once its worker has told.
    pid: int = 0
    # Whether another worker leads the job: what it uses here is foreign to ours.
    guest: bool = False
    # Whether its size was declared, and so needs no margin.
    declared: bool = False

    @property
    def job_type(self) -> str:
        return self.key[0]

    @property
    def charged_bytes(self) -> int:
        """What this attempt costs the device: the promise, or its use where that is more."""
        return max(self.lease_bytes, self.used_bytes)

    @property
    def kind(self) -> Kind | None:
        return self.estimate.kind if self.estimate else None


@dataclass(slots=True)
class Load:
    """What the leases of a device amount to. Biases are per kind of job: they add up."""

    charged_bytes: int = 0
    variance: float = 0.0
    bias_bytes: dict[Key, float] = field(default_factory=dict)
    closed_by: set[str] = field(default_factory=set)


def _load_of(leases: Iterable[Lease]) -> Load:
    load = Load()
    for lease in leases:
        load.charged_bytes += lease.charged_bytes
        if lease.measuring or lease.alone:
            load.closed_by.add(lease.job_id)
        estimate = lease.estimate
        if estimate is not None:
            load.variance += estimate.noise_bytes**2
            alike = load.bias_bytes.get(lease.key, 0.0)
            load.bias_bytes[lease.key] = alike + estimate.bias_bytes
    load.variance += sum(bias**2 for bias in load.bias_bytes.values())
    return load


@dataclass(slots=True)
class Ledger:
    """One device: what it has, what strangers use, what was promised."""

    facts: DeviceFacts
    max_jobs: int | None = None
    used_bytes: int = 0
    foreign_bytes: int = 0
    idle_bytes: int = 0
    utilisation: float = 0.0
    temperature_c: int | None = None
    processes: tuple[DeviceProcess, ...] = ()
    leases: dict[str, Lease] = field(default_factory=dict)
    free_after_grant: int = 0
    # Whether it may have room that it had not when the last scheduling pass looked.
    opened: bool = True
    job_seconds: float = 0.0
    _counted_at: float = 0.0
    _load: Load | None = None

    @property
    def guard_bytes(self) -> int:
        return min(GUARD_BYTES, self.facts.total_bytes // GUARD_PART)

    def free_bytes(self, without: Set[str] = NOBODY) -> int:
        """What may still be promised; `without` are jobs that do not count."""
        load = self._loaded(without)
        return (
            self.facts.total_bytes - self.foreign_bytes - self.idle_bytes - load.charged_bytes
        )

    @property
    def variance(self) -> float:
        """How far off those that are here, and strangers, may be together; squared bytes."""
        return self._loaded(NOBODY).variance + (FOREIGN_SPREAD * self.foreign_bytes) ** 2

    def headroom_bytes(
        self,
        sigmas: float,
        key: Key | None = None,
        estimate: Estimate | None = None,
        without: Set[str] = NOBODY,
    ) -> int:
        """What to leave free so that all errors together hardly ever overflow the device.

        Errors of different kinds of job average out; equal jobs err together.

        Args:
            key: One more job to reckon with, and what is expected of it.
        """
        load = self._loaded(without)
        variance = load.variance + (FOREIGN_SPREAD * self.foreign_bytes) ** 2
        if key is not None and estimate is not None:
            alike = load.bias_bytes.get(key, 0.0)
            variance += estimate.noise_bytes**2
            variance += (alike + estimate.bias_bytes) ** 2 - alike**2
        return int(sigmas * math.sqrt(max(0.0, variance))) + self.guard_bytes

    def _loaded(self, without: Set[str]) -> Load:
        """Add up who is here; kept until something changes, since every decision asks."""
        if without:
            return _load_of(
                lease for job_id, lease in self.leases.items() if job_id not in without
            )
        if self._load is None:
            self._load = _load_of(self.leases.values())
        return self._load

    @property
    def all_declared(self) -> bool:
        """Whether nobody here may be larger than was thought."""
        return all(one.declared for one in self.leases.values())

    @property
    def guest_bytes(self) -> int:
        """What jobs that other workers lead use here."""
        return sum(one.used_bytes for one in self.leases.values() if one.guest)

    @property
    def closed(self) -> bool:
        """Whether somebody here must be left alone."""
        return bool(self._loaded(NOBODY).closed_by)

    def closed_to(self, beside: Set[str]) -> bool:
        """Whether somebody here, those in `beside` not counted, must be left alone."""
        return not self._loaded(NOBODY).closed_by <= beside

    def others(self, without: Set[str] = NOBODY) -> int:
        """How many jobs are here, those in `without` not counted."""
        if not without:
            return len(self.leases)
        return sum(job_id not in without for job_id in self.leases)

    @property
    def measuring(self) -> Lease | None:
        """The lease that is being measured here, if any."""
        return next((lease for lease in self.leases.values() if lease.measuring), None)

    def grant(self, lease: Lease, now: float) -> None:
        """Promise the bytes. Promising more than the device has is a bug, and stops here."""
        assert lease.job_id not in self.leases, f"job {lease.job_id} has a lease here already"
        free = max(0, self.free_bytes(lease.uncounted))
        assert lease.lease_bytes <= free, f"{lease.lease_bytes} promised, {free} free"
        self.free_after_grant = free - lease.lease_bytes
        self.adopt(lease, now)

    def adopt(self, lease: Lease, now: float) -> None:
        """Take over a promise that was made before: it holds, whatever is free now."""
        self._count(now)
        lease.granted_at = lease.grown_at = lease.used_at = now
        lease.job_seconds = self.job_seconds
        for one in self.leases.values():
            one.shared = lease.shared = True
        self.leases[lease.job_id] = lease
        self._load = None

    def release(self, job_id: str, now: float) -> float:
        """Take the promise back; give how many jobs were here on average meanwhile."""
        self._count(now)
        lease = self.leases.pop(job_id)
        self._load = None
        self.opened = True
        lasted_s = now - lease.granted_at
        return (self.job_seconds - lease.job_seconds) / lasted_s if lasted_s > 0 else 1.0

    def pass_on(self, job_id: str, heir: str, attempt: int) -> None:
        """Promise the same to another attempt, which goes on in the same process."""
        lease = self.leases.pop(job_id)
        lease.job_id, lease.attempt = heir, attempt
        for one in self.leases.values():
            if job_id in one.beside:  # whoever was there rightly stays
                one.beside = one.beside - {job_id} | {heir}
        self.leases[heir] = lease
        self._load = None

    def _count(self, now: float) -> None:
        """Count seconds of jobs, so that the company of each is known at its end."""
        self.job_seconds += len(self.leases) * (now - self._counted_at)
        self._counted_at = now

    def note_use(self, lease: Lease, used_bytes: int, now: float) -> None:
        if used_bytes > lease.grown_to_bytes * GROWTH:
            lease.grown_at, lease.grown_to_bytes = now, used_bytes
        if used_bytes != lease.used_bytes or (used_bytes and self.utilisation > 0):
            lease.used_at = now
        lease.most_used_bytes = max(lease.most_used_bytes, used_bytes)
        lease.used_bytes = used_bytes
        self._load = None

    def shrink_to_use(self, job_id: str) -> None:
        """A job that submitted jobs waits for them: keep only what it really uses."""
        lease = self.leases[job_id]
        lease.lease_bytes = lease.used_bytes
        lease.measuring = False
        lease.estimate = None
        self._load = None
        self.opened = True

    def settle(self, lease: Lease, estimate: Estimate) -> None:
        """A measuring run grows no more: the rest of the device is open to others."""
        lease.measuring = False
        lease.settled = True
        lease.estimate = estimate
        floor = self.facts.total_bytes // MOST_PER_DEVICE
        lease.lease_bytes = min(lease.lease_bytes, max(estimate.lease_bytes, floor, 1))
        self._load = None
        self.opened = True
