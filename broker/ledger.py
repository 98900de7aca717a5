"""Who has been promised which bytes of a device. All arithmetic is per device, never a sum."""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.records import DeviceFacts

NOBODY: Final[Set[str]] = frozenset()


@dataclass(slots=True)
class Lease:
    """Bytes of one device promised to one attempt, from grant to end.

    Its ancestors, who wait for it, may be `beside` it even while it is measured; where it
    would otherwise wait for itself, their bytes were `uncounted` at the grant.
    """

    job_id: str
    attempt: int
    lease_bytes: int
    job_type: str
    measuring: bool = False
    used_bytes: int = 0
    beside: Set[str] = NOBODY
    uncounted: Set[str] = NOBODY

    @property
    def charged_bytes(self) -> int:
        """What this attempt costs the device: the promise, or its use where that is more."""
        return max(self.lease_bytes, self.used_bytes)


@dataclass(slots=True)
class Ledger:
    """One device: what it has, what strangers use, what was promised."""

    facts: DeviceFacts
    max_jobs: int | None = None
    used_bytes: int = 0
    foreign_bytes: int = 0
    idle_bytes: int = 0
    utilisation: float = 0.0
    leases: dict[str, Lease] = field(default_factory=dict)
    free_after_grant: int = 0

    def free_bytes(self, without: Set[str] = NOBODY) -> int:
        """What may still be promised; `without` are jobs that do not count."""
        charged = sum(
            lease.charged_bytes
            for job_id, lease in self.leases.items()
            if job_id not in without
        )
        return self.facts.total_bytes - self.foreign_bytes - self.idle_bytes - charged

    def others(self, without: Set[str] = NOBODY) -> int:
        """How many jobs are here, those in `without` not counted."""
        return sum(job_id not in without for job_id in self.leases)

    @property
    def measuring(self) -> Lease | None:
        """The lease that is being measured here, if any."""
        return next((lease for lease in self.leases.values() if lease.measuring), None)

    def grant(self, lease: Lease) -> None:
        """Promise the bytes. Promising more than the device has is a bug, and stops here."""
        assert lease.job_id not in self.leases, f"job {lease.job_id} has a lease here already"
        free = max(0, self.free_bytes(lease.uncounted))
        assert lease.lease_bytes <= free, f"{lease.lease_bytes} promised, {free} free"
        self.free_after_grant = free - lease.lease_bytes
        self.leases[lease.job_id] = lease

    def release(self, job_id: str) -> None:
        del self.leases[job_id]

    def shrink_to_use(self, job_id: str) -> None:
        """A job that submitted jobs waits for them: keep only what it really uses."""
        lease = self.leases[job_id]
        lease.lease_bytes = lease.used_bytes
        lease.measuring = False
