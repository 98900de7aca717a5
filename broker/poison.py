"""Types of job that kill their workers again and again are not run any more.

Who killed a worker cannot be seen, so the types that ran on it share the blame; a run that
succeeds clears its type.
"""

from typing import Final

from .changes import Death

# So many dead workers in a day are enough.
BUDGET: Final = 3.0
DAY_S: Final = 24 * 3600.0
# Thirds add up to a little less than one.
_ROUNDING: Final = 1e-6


class Poison:
    """The blame that each type has gathered."""

    def __init__(self) -> None:
        self._deaths: dict[str, list[Death]] = {}

    def blame(self, death: Death) -> None:
        if death.blame:
            self._deaths.setdefault(death.job_type, []).append(death)
        else:
            self._deaths.pop(death.job_type, None)

    def blamed(self, job_type: str) -> bool:
        """Whether there is anything to clear."""
        return job_type in self._deaths

    def quarantined(self, job_type: str, now: float) -> int:
        """How many workers it has cost within a day, if that is too many; else 0."""
        deaths = self._deaths.get(job_type)
        if deaths is None:
            return 0
        recent = [one for one in deaths if now - one.at < DAY_S]
        total = sum(one.blame for one in recent)
        return len(recent) if total + _ROUNDING >= BUDGET else 0
