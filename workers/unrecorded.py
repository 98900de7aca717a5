"""What a worker answers for until the broker has recorded it. Pure."""

from collections.abc import Iterable
from typing import Final

from grn_zmq import wire
from grn_zmq.records import AttemptId, Result

from .effects import Effect, Keep
from .spoollog import (
    Attempt,
    DropRecord,
    DropsRecord,
    Left,
    ReturnedRecord,
    attempts_in,
    part_of,
    results_in,
)

# A new greeting repeats results at once; this is for what neither side has noticed.
REPEAT_S: Final = 5.0


class Unrecorded:
    """Results that were told, and attempts of dead incarnations that may have run."""

    def __init__(self, left: Left) -> None:
        self.results: dict[Attempt, Result | ReturnedRecord] = {
            attempt: record.result for attempt, record in left.results.items()
        }
        self.interrupted: set[Attempt] = set(left.interrupted)
        self.repeat_at = float("inf")

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self.results or attempt in self.interrupted

    def add(self, result: Result, now: float) -> None:
        self._repeat_later(now)
        self.results[result.job_id, result.attempt] = result

    def add_all(self, record: ReturnedRecord, now: float) -> None:
        self._repeat_later(now)
        self.results |= dict.fromkeys(attempts_in(record), record)

    def result(self, attempt: Attempt) -> Result | None:
        """What there is of one attempt."""
        found = self.results.get(attempt)
        return results_in(found)[attempt] if isinstance(found, ReturnedRecord) else found

    def drop(self, attempts: Iterable[AttemptId]) -> list[Effect]:
        """The broker has what there was of these: forget them."""
        return self.drop_all((one.job_id, one.attempt) for one in attempts)

    def drop_all(self, attempts: Iterable[Attempt]) -> list[Effect]:
        """The same, of attempts that were told of in columns."""
        known: list[Attempt] = []
        for key in attempts:
            if self.results.pop(key, None) is not None or key in self.interrupted:
                known.append(key)
        if not known:
            return []
        self.interrupted.difference_update(known)
        if len(known) == 1:
            return [Keep(DropRecord(*known[0]))]
        job_ids, tries = zip(*known, strict=True)
        return [Keep(DropsRecord(job_ids, tries))]

    def _repeat_later(self, now: float) -> None:
        if not self.results:
            self.repeat_at = now + REPEAT_S

    def to_repeat(self, epoch: int, now: float) -> list[wire.FromWorker]:
        """Give what is to be said again now."""
        if not self.results or now < self.repeat_at:
            return []
        self.repeat_at = now + REPEAT_S
        alone = [one for one in self.results.values() if isinstance(one, Result)]
        trains = {id(one): one for one in self.results.values()}.values()
        return [
            *(wire.Finished(epoch, (one,)) for one in alone),
            *(
                returned_of(part_of(one, self.results), epoch)
                for one in trains
                if isinstance(one, ReturnedRecord)
            ),
        ]


def returned_of(record: ReturnedRecord, epoch: int) -> wire.Returned:
    """Say what was written down."""
    return wire.Returned(
        epoch,
        record.job_ids,
        record.attempts,
        record.run_s,
        record.payloads,
        record.peak_bytes,
        record.utilisation,
        record.seen,
    )
