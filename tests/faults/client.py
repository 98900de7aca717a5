"""A client of the fault suite, a process of its own: submits jobs, writes down what it is told.

`python -m tests.faults.client ORDER HISTORY`, both paths; see `load.py` for the order.
"""

import json
import os
import queue
import sys
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grn_zmq as grn
from grn_zmq import failpoints
from grn_zmq.client import this_client
from grn_zmq.futures import Future
from grn_zmq.pending import Pending
from grn_zmq.submission import describe_call
from tests.faults.bodies import work


@dataclass(frozen=True)
class Order:
    """What a client is to do."""

    ledger: str
    count: int
    # Of four jobs one after the other, so many are detached.
    detached: int = 2
    # How long jobs take, in turn.
    seconds: tuple[float, ...] = (0.0, 0.3)
    # Every n-th raises an exception; 0 for none.
    failing: int = 0
    retries: int = 0
    # A pause between two submissions.
    pause_s: float = 0.0
    # A file that says which part of all jobs may be submitted by now; empty for all.
    pace: str = ""
    # Jobs go on until this file is there.
    gate: str = ""
    # Leave without any cleaning up as soon as all is accepted.
    leave: bool = False
    failpoints: str = ""

    @staticmethod
    def read(path: Path) -> "Order":
        facts = json.loads(path.read_text())
        return Order(**{**facts, "seconds": tuple(facts["seconds"])})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


class History:
    """One JSON line for each thing done or told; survives the death of its writer."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, event: str, **facts: Any) -> None:
        os.write(self._fd, json.dumps({"event": event, **facts}).encode() + b"\n")


class Loader:
    """Submits in one thread and waits in another."""

    def __init__(self, order: Order, history: History) -> None:
        self._order = order
        self._history = history
        self._submitted: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._job = work.with_options(retries=order.retries) if order.retries else work

    def run(self) -> None:
        waiting = threading.Thread(target=self._wait)
        waiting.start()
        try:
            for number in range(self._order.count):
                while not self._may_submit(number):
                    time.sleep(0.02)
                self._submitted.put(self._submit(number))
                time.sleep(self._order.pause_s)
        finally:
            self._submitted.put(None)
            waiting.join()
        self._history.add("done")

    def _may_submit(self, number: int) -> bool:
        pace = self._order.pace
        if not pace:
            return True
        return number + 0.5 < self._order.count * float(Path(pace).read_text())

    def _submit(self, number: int) -> Pending:
        order = self._order
        detached = order.leave or number % 4 < order.detached
        fails = bool(order.failing) and number % order.failing == order.failing - 1
        seconds = order.seconds[number % len(order.seconds)]
        job = self._job
        args = (order.ledger, number, seconds, fails, order.gate)
        client = this_client()
        spec, blobs = describe_call(
            job,
            job.stand_in,
            job.job_type,
            job.options,
            args,
            {},
            detached=detached,
            session=client.parcel_session,
        )
        self._history.add(
            "submitted",
            job=spec.job_id,
            detached=detached,
            retries=order.retries,
            outcome="failed" if fails else "succeeded",
            value=None if fails else number * number,
        )
        return client.submit(spec, blobs)

    def _wait(self) -> None:
        accepted: list[Future[Any]] = []
        while (pending := self._submitted.get()) is not None:
            if future := self._accepted(pending):
                accepted.append(future)
        if self._order.leave:
            os._exit(0)
        for future in accepted:
            self._told(future)

    def _accepted(self, pending: Pending) -> Future[Any] | None:
        future, spec = pending.future, pending.spec
        assert spec is not None
        pending.accepted.wait()
        error = future.exception() if future.done() and not future.cancelled() else None
        if future.outcome is None and error is not None:
            self._history.add("refused", job=future.job_id, why=repr(error))
            return None
        self._history.add("accepted", job=future.job_id)
        if not spec.detached:
            return future
        this_client().wait_accepted(pending)
        return None if self._order.leave else grn.attach(future.job_id)

    def _told(self, future: Future[Any]) -> None:
        value = None
        try:
            value = future.result()
        except (Exception, CancelledError) as error:
            if future.outcome is None:
                self._history.add("gave-up", job=future.job_id, why=repr(error))
                return
        assert future.outcome is not None
        word = future.outcome.outcome
        self._history.add("told", job=future.job_id, outcome=word, value=value)


def main() -> None:
    order = Order.read(Path(sys.argv[1]))
    failpoints.arm(order.failpoints)
    Loader(order, History(Path(sys.argv[2]))).run()


if __name__ == "__main__":
    main()
