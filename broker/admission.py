"""Whether the broker takes one more job; every no has a reason that the client understands."""

from grn_zmq import wire
from grn_zmq.records import JobSpec
from grn_zmq.units import format_bytes

from .book import Book
from .candidates import managed
from .jobs import Job
from .missing import too_few_text
from .queueing import refusal
from .settings import Settings


class Admission:
    """Caps on what is waiting, and what else keeps jobs out."""

    def __init__(self, book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings
        self.disk_full = False

    def refuse_all(self, message: wire.Calls, now: float) -> wire.Refused | None:
        """Say why not all of these new jobs are taken; None if they are."""
        more_bytes = sum(map(len, message.payloads))
        live = len(self._book.jobs) - len(self._book.ended)
        fits = (
            live + len(message.job_ids) <= self._settings.most_jobs
            and self._book.payload_bytes + more_bytes <= self._settings.most_bytes
        )
        if not fits:
            return _no(message.like, "queue-full", "not all of them fit")
        return self.refuse(message.like, now)

    def refuse(self, spec: JobSpec, now: float) -> wire.Refused | None:
        """Say why this new job is not taken; None if it is."""
        if self._book.stopping:
            return _no(spec, "draining", "the broker is being stopped and takes no more jobs")
        if self.disk_full:
            text = "the broker's disk is nearly full: make room where it keeps its state"
            return _no(spec, "disk-full", text)
        live = len(self._book.jobs) - len(self._book.ended)
        if live >= self._settings.most_jobs:
            text = f"the broker has {live:,} jobs, as many as it may: try again when some ended"
            return _no(spec, "queue-full", text)
        waiting, most = self._book.payload_bytes, self._settings.most_bytes
        if waiting and waiting + len(spec.payload) > most:
            text = (
                f"the arguments of waiting jobs take {format_bytes(waiting)} of "
                f"{format_bytes(most)}: try again when some have ended"
            )
            return _no(spec, "queue-full", text)
        for job_id in (*spec.after, *spec.after_any):
            if job_id not in self._book.jobs:
                text = f"there is no job {job_id} to wait for: see `grn ps --all`"
                return _no(spec, "unknown-dependency", text)
        if declared := refusal(self._book, spec):
            return _no(spec, *declared)
        if spec.kind == "command" and (few := self._too_few(spec, now)):
            return _no(spec, "impossible", few)
        if deaths := self._book.poison.quarantined(spec.job_type, now):
            text = (
                f"{spec.job_type} is quarantined: {deaths} workers died while it ran, none of "
                f"its runs succeeded since. Mend it, then: grn profiles forget {spec.job_type}"
            )
            return _no(spec, "quarantined", text)
        return None

    def _too_few(self, spec: JobSpec, now: float) -> str:
        """Why there can never be enough devices, unless others are about to join."""
        gathering = now - self._book.gathered_at < self._settings.gather_s
        if spec.gpus <= 1 or gathering or not self._book.workers:
            return ""
        job = Job(spec, 0, "", now)
        there = len(managed(self._book, job, now))
        return too_few_text(spec, spec.gpus, there) if there < spec.gpus else ""


def _no(spec: JobSpec, reason: str, text: str) -> wire.Refused:
    return wire.Refused(reason, text, (spec.job_id,))
