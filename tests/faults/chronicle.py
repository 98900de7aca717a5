"""What played clients and workers would have written down, for the same judgement as all."""

from collections.abc import Iterable
from pathlib import Path

from grn_zmq.records import JobSpec, Outcome, Run
from tests.faults.client import History
from tests.faults.ledger import Checker, Ledger


class Chronicle:
    """Histories and a ledger in the place of those who only exist in a test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ledger = Ledger(directory / "ledger")
        self._histories: dict[Path, bool] = {}

    def submitted(
        self, name: str, specs: Iterable[JobSpec], outcome: str = "succeeded", *, stays: bool
    ) -> None:
        """A client submits; if it stays, it must be told how each of these ended."""
        history = self._of(name, stays=stays)
        for spec in specs:
            history.add(
                "submitted",
                job=spec.job_id,
                detached=spec.detached,
                retries=spec.retries + spec.oom_retries,
                outcome=outcome,
                value=None,
            )

    def accepted(self, name: str, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self._of(name).add("accepted", job=job_id)

    def told(self, name: str, outcomes: Iterable[Outcome]) -> None:
        for one in outcomes:
            self._of(name).add("told", job=one.job_id, outcome=one.outcome, value=None)

    def ran(self, runs: Iterable[Run], *, whole: bool = True) -> None:
        """A worker lets these bodies run, to their ends if `whole`."""
        with open(self._ledger.path, "a") as ledger:
            for run in runs:
                for what in ("start", "finish") if whole else ("start",):
                    ledger.write(f"{what} {run.job_id} {run.attempt} 1\n")

    def checker(self, state: Path) -> Checker:
        return Checker(self._ledger, self._histories.items(), state)

    def _of(self, name: str, *, stays: bool | None = None) -> History:
        path = self._directory / f"{name}.history"
        if stays is not None:
            self._histories[path] = stays
        return History(path)
