"""What the broker says, as the futures of this process hear it.

All of it may come twice: what was done already is not done again, but always answered again.
Whatever runs code of the user is handed to the openers.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from . import wire
from .batches import IDS_PER_MESSAGE, parts
from .endings import Endings
from .errors import BrokerUnavailable, GrnError, ResultExpired, UnknownJob
from .failpoints import failpoint
from .openers import Task
from .pending import Pending
from .records import Begun
from .refusals import refusal
from .submission import drop_arguments

if TYPE_CHECKING:
    from .client import Client

# How often to look for jobs of which nothing was heard for long.
LOOK_S: Final = 5.0


class Hearing:
    """Takes the messages of the broker for a client, in the order in which they were sent."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self.endings = Endings(client)
        self._look_at = 0.0

    def on_message(self, message: wire.Message) -> None:
        match message:
            case wire.Taken():
                self._on_taken(zip(message.job_ids, count(message.first), strict=False))
            case wire.Values():
                self.endings.on_values(message)
            case wire.Accepted():
                self._on_taken((one.job_id, one.number) for one in message.jobs)
            case wire.Want():
                self._on_want(message)
            case wire.Started():
                for begun in message.runs:
                    self._on_begun(begun)
            case wire.Output():
                for piece in message.pieces:
                    self._client.output.write(piece.job_id, piece.stream, piece.data)
            case wire.Cancelling():
                for job_id in message.job_ids:
                    if pending := self._heard_of(job_id):
                        pending.take_cancel()
            case wire.Ended():
                self.endings.on_ended(message)
            case wire.Refused():
                self._on_refused(message)
            case (
                wire.JobsAre()
                | wire.DevicesAre()
                | wire.ProfilesAre()
                | wire.Forgotten()
                | wire.Stopping()
            ):
                self._client.questions.answer(message)

    def on_welcome(self, welcome: wire.Welcome) -> None:
        """Say again what this broker may not know: it is new, or the stream was cut."""
        with self._client.lock:
            self._client.sending.restart(welcome.credits)
            self.endings.forget_received()
            self._repeat(list(self._client.pending.values()))
            for pending in self._client.pending.values():
                pending.heard(time.monotonic())
            if self._client.questions.open is not None:
                self._client.send(self._client.questions.open)

    def _repeat(self, jobs: list[Pending]) -> None:
        self._client.sending.send_waiting()
        live = [one for one in jobs if not one.ended]
        accepted = [one for one in live if one.is_accepted]
        for part in parts([one.job_id for one in accepted], IDS_PER_MESSAGE):
            self._client.send(wire.Attach(part))
        for pending in live:
            if pending.cancelling and not pending.is_cancel_taken:
                self._client.send(wire.Cancel((pending.job_id,), pending.interrupt))
            if pending.released is not None:
                self._client.send(wire.Release((pending.released,)))

    def on_tick(self, now: float) -> float | None:
        """Ask for jobs of which nothing was heard for long; pushes are only hints."""
        soon = self._client.openers.tick(now)
        if not self._client.pending:
            return soon
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            with self._client.lock:
                due = [one for one in self._client.pending.values() if one.pull_at <= now]
                unanswered = self._client.sending.window.is_unanswered
                self._client.sending.send_jobs([one for one in due if unanswered(one)])
                self._repeat(due)
                for pending in due:
                    pending.pulled(now)
        left = self._look_at - now
        return left if soon is None else min(soon, left)

    def acknowledge(self, now: float, *, hold: bool) -> None:
        self.endings.acknowledge(now, hold=hold)

    def fill(self) -> None:
        """Let the jobs go for which there are credits."""
        if self.has_more():
            self._client.sending.send_waiting()

    def has_more(self) -> bool:
        """Whether there are jobs for which there are credits."""
        return self._client.sending.window.ready

    def leave_if_idle(self) -> bool:
        with self._client.lock:
            if self._client.pending or self._client.questions.open is not None:
                return False
            self._client.lost(time.monotonic())
            return True

    def on_gone(self, error: BaseException) -> None:
        """The broker is gone for too long, or cannot be spoken to."""
        self._client.lost(None)  # whoever comes next is told at once
        self.give_up(error, self._client.openers.put)

    def give_up(self, error: BaseException, run: Callable[[Task], None]) -> None:
        with self._client.lock:
            lost = [one for one in self._client.pending.values() if not one.ended]
            for pending in lost:
                del self._client.pending[pending.job_id]
            self._client.sending.window.clear()
        for pending in lost:
            run(partial(pending.fail, _of_job(error, pending)))
        self._client.questions.answer(_as_unavailable(error))

    def _heard_of(self, job_id: str) -> Pending | None:
        pending = self._client.pending.get(job_id)
        if pending is not None:
            pending.heard(time.monotonic())
        return pending

    def _on_taken(self, numbered: Iterable[tuple[str, int]]) -> None:
        failpoint("client.accepted")
        now = time.monotonic()
        with self._client.lock:
            known, window = self._client.pending, self._client.sending.window
            for job_id, number in numbered:
                if pending := known.get(job_id):
                    pending.number = number
                    pending.heard(now)
                    window.answered(pending)
                    pending.accept()

    def _on_want(self, message: wire.Want) -> None:
        with self._client.lock:
            jobs = self._client.pending.values()
            kept = {blob.digest: blob for one in jobs for blob in one.blobs}
            for digest in message.digests:
                if digest in kept:
                    self._client.send(wire.Blobs((kept[digest],)))

    def _on_begun(self, begun: Begun) -> None:
        with self._client.lock:
            pending = self._heard_of(begun.job_id)
            if pending is None or pending.ended or not pending.begins(begun):
                return
        pending.future.began()
        if pending.abandoned:
            self._client.release(begun.job_id, begun.attempt, failed=True)
        elif pending.begun is not None:
            pending.begun.put(begun)

    def _on_refused(self, message: wire.Refused) -> None:
        asked = not message.job_ids
        if asked and not self._client.questions.answer(refusal(message.reason, message.text)):
            from loguru import logger

            logger.warning(f"the broker refused a message: {message.text}")
        for job_id in message.job_ids:
            with self._client.lock:
                pending = self._client.pending.get(job_id)
                if pending is None or pending.ended:
                    continue
                del self._client.pending[job_id]
                self._client.sending.window.answered(pending)
            if message.reason not in ("unknown-job", "result-expired"):
                drop_arguments(pending.spec)
            error = _refusal(message, job_id)
            self._client.openers.put(partial(pending.fail, error))


def _as_unavailable(error: BaseException) -> BaseException:
    return (
        error if isinstance(error, GrnError) else BrokerUnavailable(f"the broker died: {error}")
    )


def _of_job(error: BaseException, pending: Pending) -> BaseException:
    """The same for each job: what became of it, and how to hear of it later."""
    if not isinstance(error, BrokerUnavailable):
        return _as_unavailable(error)
    job_id = pending.job_id
    valid = "stays valid" if pending.is_accepted else "may have been accepted"
    return BrokerUnavailable(
        f"{error.reason}; job {job_id} {valid}, and when a broker is back "
        f"`grn.attach({job_id!r})` tells how it ended"
    )


def _refusal(message: wire.Refused, job_id: str) -> Exception:
    match message.reason:
        case "unknown-job":
            return UnknownJob(job_id)
        case "result-expired":
            return ResultExpired(job_id, message.text)
        case reason:
            return refusal(reason, message.text)
