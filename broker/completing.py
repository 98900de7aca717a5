"""Adds to messages on their way out what only the journal has: arguments and values."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from loguru import logger

from grn_zmq import wire
from grn_zmq.errors import StateDamaged
from grn_zmq.records import Run

from .core import BrokerCore
from .effects import Effect, Send
from .handing import damaged, expired
from .journal import Journal


class Completing:
    """Reads the journal for the outbox; what cannot be read is told to the core."""

    def __init__(
        self, core: BrokerCore, journal: Journal, take: Callable[[list[Effect]], None]
    ) -> None:
        self._core = core
        self._journal = journal
        self._take = take

    def complete(self, send: Send) -> wire.Message:
        """Add the payload that is in the journal only."""
        message = send.message
        if send.fetch and isinstance(message, wire.Assign):
            return replace(message, runs=tuple(self._runs(message.runs, send.fetch)))
        if send.fetch and isinstance(message, wire.Ended):
            return self._ended(message)
        if send.fetch and isinstance(message, wire.InputsAre):
            return self._inputs(message)
        return message

    def _runs(self, runs: tuple[Run, ...], fetch: tuple[str, ...]) -> Iterator[Run]:
        for run in runs:
            try:
                stored = run.job_id in fetch
                yield replace(run, payload=self._journal.payload(run.job_id)) if stored else run
            except StateDamaged as error:
                # One job less, and its owner is told; the others have nothing to do with it.
                logger.bind(facts={"job": run.job_id, "why": error.why}).error("bad payload")
                self._take(self._core.spoil(run.job_id, error.why, time.monotonic()))

    def _ended(self, message: wire.Ended) -> wire.Ended | wire.Refused:
        (outcome,) = message.outcomes
        job = self._core.book.jobs.get(outcome.job_id)
        if job is None or job.expired:  # in this very turn
            return expired(outcome.job_id, outcome.outcome)
        try:
            payload = self._journal.result(outcome.job_id)
        except StateDamaged as error:
            logger.bind(facts={"job": job.job_id, "why": error.why}).error("bad result")
            self._take(self._core.lose_value(job.job_id))
            return damaged(outcome.job_id, outcome.outcome)
        return wire.Ended((replace(outcome, payload=payload),))

    def _inputs(self, message: wire.InputsAre) -> wire.InputsAre | wire.Refused:
        try:
            payload = self._journal.payload(message.spec.job_id)
        except (KeyError, StateDamaged) as error:
            return wire.Refused("not-retriable", f"its arguments cannot be read: {error}", ())
        return replace(message, spec=replace(message.spec, payload=payload))
