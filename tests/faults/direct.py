"""This very process as a client of a system under test, with a history like all others."""

import json
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import grn_zmq as grn
from grn_zmq.client import this_client
from grn_zmq.futures import Future
from grn_zmq.records import Blob, JobSpec, Outcome
from grn_zmq.submission import describe_call
from tests.faults.bodies import note
from tests.faults.client import History
from tests.waiting import PATIENCE


@grn.job(oom_retries=0)
def act(ledger: str, body: Callable[..., Any], *args: Any) -> Any:
    """Do something, between two lines in the ledger."""
    note(ledger, "start")
    value = body(*args)
    note(ledger, "finish")
    return value


class Direct:
    """Submits one job at a time and writes down what it was told."""

    def __init__(self, directory: Path, ledger: Path, name: str = "direct") -> None:
        self.path = directory / f"{name}.history"
        self._ledger = str(ledger)
        self._history = History(self.path)

    def submit(
        self,
        body: Callable[..., Any],
        *args: Any,
        outcome: str = "succeeded",
        value: Any = None,
        detached: bool = False,
        **options: Any,
    ) -> Future[Any]:
        """Submit a job and wait until it is accepted or refused.

        Args:
            outcome: How it is expected to end, for the judgement.
            value: What it is expected to give, if that can be written as JSON.
            options: As for `grn.job`; the type is named after the body unless it is given.
        """
        spec, blobs = self.describe(body, *args, detached=detached, **options)
        return self.hand_over(spec, blobs, outcome, value)

    def describe(
        self, body: Callable[..., Any], *args: Any, detached: bool = False, **options: Any
    ) -> tuple[JobSpec, tuple[Blob, ...]]:
        """Give a job that is still to be submitted."""
        job = act.with_options(**{"type": body.__name__, **options})
        return describe_call(
            act,
            None,
            job.job_type,
            job.options,
            (self._ledger, body, *args),
            {},
            detached=detached,
            session=this_client().parcel_session,
        )

    def hand_over(
        self,
        spec: JobSpec,
        blobs: tuple[Blob, ...],
        outcome: str = "succeeded",
        value: Any = None,
    ) -> Future[Any]:
        """Submit what was described, as `submit` does."""
        self._history.add(
            "submitted",
            job=spec.job_id,
            detached=spec.detached,
            retries=spec.retries + spec.oom_retries,
            outcome=outcome,
            value=value,
        )
        client = this_client()
        pending = client.submit(spec, blobs)
        pending.accepted.wait()
        if pending.future.done() and pending.future.outcome is None:
            self._history.add("refused", job=spec.job_id, why=repr(pending.future.exception()))
            return pending.future
        self._history.add("accepted", job=spec.job_id)
        if not spec.detached:
            return pending.future
        client.wait_accepted(pending)
        return client.attach(spec.job_id)

    def end(self, future: Future[Any], seconds: float = 30.0) -> Any:
        """Wait for the end and write it down; give the value, or the error it ended with."""
        value: Any
        try:
            value = future.result(seconds * PATIENCE)
        except CancelledError:
            value = CancelledError()
        except Exception as error:
            if not future.done():
                raise
            value = error
        self.told(future, value)
        return value

    def told(self, future: Future[Any], value: Any) -> None:
        """Write down an end that somebody else has waited for."""
        word = "cancelled" if future.cancelled() else outcome_of(future).outcome
        told = value if word == "succeeded" and _is_json(value) else None
        self._history.add("told", job=future.job_id, outcome=word, value=told)


def outcome_of(future: Future[Any]) -> Outcome:
    assert future.outcome is not None
    return future.outcome


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
