"""What jobs import, by type, and when that makes a zygote worth its start. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# Loading so many modules takes about as long as starting an interpreter does.
WORTH_MODULES: Final = 50
# One process may be all a client ever needs; the second makes a third likely.
WORTH_LAUNCHES: Final = 2
# What a job process says is not to be trusted with the worker's memory.
MOST_TYPES: Final = 1000
MOST_NAMES: Final = 2000
MOST_NAMED: Final = 200

# After a death that no module is to blame for; doubled with each in a row.
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


class Learned:
    """How many modules jobs of each type load, under the names to import in advance."""

    def __init__(self) -> None:
        self._by_type: dict[str, dict[str, int]] = {}

    def take(self, job_type: str, imported: Mapping[object, object]) -> None:
        """Take what a job process said; the order is that of its imports."""
        known = self._by_type.pop(job_type, {})
        for name, weight in imported.items():
            if not isinstance(name, str) or not isinstance(weight, int):
                continue
            if len(known) < MOST_NAMES and len(name) <= MOST_NAMED:
                known.setdefault(name, max(1, weight))
        self._by_type[job_type] = known
        while len(self._by_type) > MOST_TYPES:
            del self._by_type[next(iter(self._by_type))]

    def weights(self, job_types: Iterable[str]) -> dict[str, int]:
        """Give all that jobs of these types import."""
        found: dict[str, int] = {}
        for job_type in job_types:
            for name, weight in self._by_type.get(job_type, {}).items():
                found.setdefault(name, weight)
        return found


@dataclass(slots=True)
class Plan:
    """What is known of the job processes that one zygote could serve.

    `has` is what the newest zygote was begun with; None if there is none.
    """

    launches: int = 0
    used_at: float = 0.0
    types: dict[str, None] = field(default_factory=dict)
    has: frozenset[str] | None = None
    _pause_s: float = FIRST_PAUSE_S
    _not_before: float = 0.0

    def launched(self, job_type: str, now: float) -> None:
        """A job process is launched; the type is empty if it is for a command."""
        self.launches += 1
        self.used_at = now
        if job_type and len(self.types) < MOST_TYPES:
            self.types[job_type] = None

    def due(self, wanted: Mapping[str, int], now: float) -> bool:
        """Whether a zygote that imports all that is wanted should be begun now."""
        if now < self._not_before:
            return False
        missing = sum(n for name, n in wanted.items() if name not in (self.has or ()))
        return missing >= WORTH_MODULES or (
            self.has is None and self.launches >= WORTH_LAUNCHES
        )

    def begun(self, names: Collection[str]) -> None:
        self.has = frozenset(names)

    def served(self) -> None:
        """A zygote has become ready, or has forked: its next death is the first again."""
        self._pause_s = FIRST_PAUSE_S

    def died(self, now: float, *, for_good: bool = False) -> None:
        """A zygote is gone, and no module is to blame."""
        self._not_before = float("inf") if for_good else now + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def rest(self) -> None:
        """The zygote was ended because nobody needed it."""
        self.has = None
        self.launches = 0
