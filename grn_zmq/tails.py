"""What follows a run: calls like it, in the same process and inside the same lease."""

from dataclasses import dataclass, field
from typing import Final

from .requiring import require_columns, require_ids


@dataclass(frozen=True, slots=True)
class Tail:
    """Calls that differ from the run before them in nothing but this, each column by itself.

    They follow it one after the other, in its process and inside its lease. Whatever has not
    begun can be taken back.
    """

    job_ids: tuple[str, ...] = ()
    attempts: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    payloads: tuple[bytes, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        require_ids(self.job_ids)
        require_columns(self.job_ids, self.attempts, self.numbers, self.payloads)

    def __len__(self) -> int:
        return len(self.job_ids)


NO_TAIL: Final = Tail()
