"""How jobs end, as their futures hear it.

What can be opened without running code of the user is opened where it is received, in bulk, so
that whoever waits has it after one change of threads. All else is handed to the openers.
"""

import os
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from . import wire
from .batches import IDS_PER_MESSAGE, parts
from .failpoints import failpoint
from .futures import Told, outcome_of
from .openers import Task
from .outcomes import open_outcome, warn_about
from .parcels import find_parcels
from .payload import Payload
from .pending import Pending
from .plain import open_plain
from .records import Outcome
from .submission import drop_arguments

if TYPE_CHECKING:
    from .client import Client

# An acknowledgement waits for others so long at most, or until there are so many: each costs
# the broker a message, and nobody waits for it.
_HOLD_S: Final = 0.005
_MOST_HELD: Final = 512


class Endings:
    """Settles the futures of jobs that have ended; each once, however often it is told."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        # Still to be acknowledged, in order; and since when.
        self._received: dict[str, None] = {}
        self._received_at = 0.0

    def acknowledge(self, now: float, *, hold: bool) -> None:
        """Say which ends have come; with `hold` not yet, if more may follow in a moment."""
        if not self._received:
            return
        if hold and len(self._received) < _MOST_HELD and now < self._received_at + _HOLD_S:
            return
        failpoint("client.ended")
        for part in parts(list(self._received), IDS_PER_MESSAGE):
            self._client.sending.send_aside(wire.Received(part))
        self._received.clear()

    def owes(self, job_id: str) -> bool:
        """Whether the end of this job is still to be acknowledged."""
        return job_id in self._received

    def forget_received(self) -> None:
        """The connection is gone: the next broker tells again what was not acknowledged."""
        self._received.clear()

    def on_ended(self, message: wire.Ended) -> None:
        told = [
            (one.job_id, (one, one.wait_s, one.run_s, one.payload)) for one in message.outcomes
        ]
        self._on_told(told)

    def on_values(self, message: wire.Values) -> None:
        columns = zip(message.wait_s, message.run_s, message.payloads, strict=True)
        told = [(message.like, *one) for one in columns]
        self._on_told(list(zip(message.job_ids, told, strict=True)))

    def _on_told(self, told: list[tuple[str, Told]]) -> None:
        here: list[tuple[Pending, Told, Any]] = []
        tasks: list[Task] = []
        wanted = self._client.reporter.wanted()
        for pending, one in self._note(told):
            plain = None if wanted or not _is_plain(one[0]) else open_plain(one[3])
            if plain is None:
                # The file is opened before the outcome is acknowledged, for then it may go.
                tasks.append(partial(self._settle, pending, one, _payload(one)))
            else:
                here.append((pending, one, plain[0]))
        self._forget(*(pending for pending, _, _ in here))
        for pending, one, value in here:
            callbacks = pending.future.settle_quietly(one, value)
            pending.let_go()
            if callbacks is not None:
                tasks.append(callbacks)
        if tasks:
            self._client.openers.put(*tasks)
        if not self._received:
            self._received_at = time.monotonic()
        self._received.update(dict.fromkeys(job_id for job_id, _ in told))

    def _note(self, told: Iterable[tuple[str, Told]]) -> list[tuple[Pending, Told]]:
        """Take note of the ends; give those that are news."""
        ended: list[tuple[Pending, Told]] = []
        with self._client.lock:
            known, window = self._client.pending, self._client.sending.window
            for job_id, one in told:
                pending = known.get(job_id)
                if pending is not None and not pending.ended:
                    pending.ended = True
                    window.answered(pending)
                    self._client.output.forget(job_id)
                    ended.append((pending, one))
        return ended

    def _settle(self, pending: Pending, told: Told, payload: Payload | None) -> None:
        future, outcome = pending.future, outcome_of(pending.job_id, told)
        future.tell(outcome)
        if outcome.outcome == "cancelled":
            self._forget(pending)
            future.settle_cancelled()
        else:
            value, error = open_outcome(outcome, pending.like, payload)
            # Before what its caller prints.
            self._client.reporter.job_ended(outcome, pending.like)
            self._forget(pending)
            future.settle(value, error)
            warn_about(outcome, pending.like)
        pending.let_go()

    def withdrawn(self, pending: Pending) -> None:
        """It was cancelled before any broker heard of it."""
        self._forget(pending)
        drop_arguments(pending.spec)
        pending.future.settle_cancelled()
        pending.let_go()

    def _forget(self, *jobs: Pending) -> None:
        with self._client.lock:
            for pending in jobs:
                self._client.pending.pop(pending.job_id, None)


def _is_plain(like: Outcome) -> bool:
    """Whether nothing is to be said about such an end, and its value is in the message."""
    unseen = not like.seen and like.device.startswith("nvml")
    return like.outcome == "succeeded" and not like.token and not unseen


def _payload(told: Told) -> Payload | None:
    """What the job gave, without opening it; None if it was let go."""
    like, _, _, payload = told
    if not like.token:
        return payload
    try:
        return find_parcels(os.environ).read(like.token)
    except (OSError, ValueError):
        return None
