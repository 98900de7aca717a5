"""Jobs whose worker is away: it died, or the broker did and has not heard of it yet.

They keep what they were promised until the next greeting for that device decides about them,
or until it is too late for one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from grn_zmq.records import Released

from .changes import Life


@dataclass(slots=True)
class Away:
    """The jobs of one device, and until when its worker is waited for.

    It is `dead` if the kernel said so: then none of them can still be running.
    """

    until: float
    dead: bool = False
    lives: dict[str, Life] = field(default_factory=dict)


class Adrift:
    """Lives of jobs by the device they were placed on."""

    def __init__(self) -> None:
        self._away: dict[str, Away] = {}
        self._device_of: dict[str, str] = {}
        self._released: dict[str, Released] = {}

    def add(self, life: Life, until: float) -> None:
        away = self._away.setdefault(life.worker, Away(until))
        away.until = max(away.until, until)
        away.lives[life.job_id] = life
        self._device_of[life.job_id] = life.worker

    def life(self, job_id: str) -> Life | None:
        device = self._device_of.get(job_id)
        return None if device is None else self._away[device].lives[job_id]

    def note_death(self, device: str) -> None:
        """The worker that had these is proved dead."""
        if device in self._away:
            self._away[device].dead = True

    def dead(self, device: str) -> bool:
        return self._away[device].dead

    def cancel(self, job_id: str) -> None:
        """Remember it on the life too: its worker is told when it is back."""
        lives = self._away[self._device_of[job_id]].lives
        lives[job_id] = replace(lives[job_id], cancelling=True)

    def note_release(self, released: Released) -> None:
        """The body of an inline job has ended while its worker was away."""
        self._released[released.job_id] = released

    def take(self, device: str) -> list[tuple[Life, Released | None]]:
        """The worker of this device is here, or given up: decide about each of these now."""
        away = self._away.pop(device, None)
        if away is None:
            return []
        for job_id in away.lives:
            del self._device_of[job_id]
        return [(life, self._released.pop(one, None)) for one, life in away.lives.items()]

    def overdue(self, now: float) -> list[str]:
        """The devices whose worker is no longer waited for."""
        return [device for device, away in self._away.items() if now >= away.until]

    @property
    def next_due(self) -> float | None:
        return min((away.until for away in self._away.values()), default=None)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._device_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._device_of)

    def __len__(self) -> int:
        return len(self._device_of)
