"""What a queued job waits for: its own gates, the whole queue, or room on a device."""

from collections.abc import Callable
from typing import Final

from grn_zmq.units import format_seconds

from .book import Book
from .jobs import Job
from .scheduler import Hold, Why

# Jobs named in a reason; more would drown it.
SHOWN: Final = 4


class Reasons:
    """Answers for every job in the queue, also for those that may not start yet."""

    def __init__(self, book: Book, of_devices: Callable[[Job, float], Hold | None]) -> None:
        self._book = book
        self._of_devices = of_devices

    def why(self, job: Job, now: float) -> Hold | None:
        """What binds it now; None if nothing does."""
        return self.of_gates(job, now) or self._of_queue(job) or self._of_devices(job, now)

    def of_gates(self, job: Job, now: float) -> Hold | None:
        """What keeps this very job, whatever its like do."""
        if job.held:
            return Hold(Why.HELD, f"held: `grn release {job.number}` lets it start")
        if job.after:
            return Hold(Why.DEPENDENCY, self._dependency(job))
        if job.early:
            left_s = max(0.0, job.begin_at - now)
            return Hold(Why.BEGIN, f"waiting for its begin time, in {format_seconds(left_s)}")
        return None

    def _of_queue(self, job: Job) -> Hold | None:
        if self._book.stopping:
            return Hold(
                Why.DRAINING, "the broker is being stopped: it runs after the next start"
            )
        if self._book.paused:
            return Hold(Why.PAUSED, "the queue is paused: `grn resume` lets jobs start again")
        return None

    def _dependency(self, job: Job) -> str:
        before = [self._book.jobs[one] for one in job.after]
        shown = ", ".join(f"{one.number} ({one.state.value})" for one in before[:SHOWN])
        more = f" and {len(before) - SHOWN} more" if len(before) > SHOWN else ""
        must = "succeed" if all(one.job_id in job.spec.after for one in before) else "end"
        noun = "job" if len(before) == 1 else "jobs"
        return f"waiting for {noun} {shown}{more} to {must}"
