"""What must be true of everything the broker says and grants, judged from outside."""

from collections import Counter
from collections.abc import Iterator

from broker.book import Book
from broker.effects import Effect, Note, Peer, Send
from broker.jobs import Job
from grn_zmq import wire
from grn_zmq.records import Outcome, Piece, Run


def of_result(run: Run) -> bytes:
    """The value a simulated body returns: it tells which attempt made it."""
    return f"{run.job_id} {run.attempt} {'stand-in' if run.stand_in else 'real'}".encode()


class Oracle:
    """Keeps its own record of the run and compares each event with it."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.accepted: set[str] = set()
        self.ends: Counter[object] = Counter()
        self.outcomes: dict[str, str] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        self.bodies: Counter[str] = Counter()

    def started(self, run: Run) -> None:
        """A worker began an attempt: the user's code runs now."""
        self.starts[run.job_id, run.attempt] += 1
        assert self.starts[run.job_id, run.attempt] == 1, f"{run.job_id} started twice"
        if not run.stand_in:
            self.bodies[run.job_id] += 1
            tries = 1 + self._book.jobs[run.job_id].ooms
            assert self.bodies[run.job_id] <= tries, f"the body of {run.job_id} ran again"

    def look(self, effects: list[Effect]) -> None:
        """Judge what the broker wants done after one event."""
        story: list[tuple[str, object]] = []
        for effect in effects:
            match effect:
                case Note("ended", facts):
                    self.ends[facts["number"]] += 1
                    assert self.ends[facts["number"]] == 1, f"{facts} ended twice"
                    story.append(("ended", facts["number"]))
                case Note("placed", facts):
                    story.append(("placed", facts["number"]))
                case Send(_, wire.Accepted(jobs)):
                    self.accepted |= {one.job_id for one in jobs}
                case Send(_, wire.Ended(outcomes)):
                    for outcome in outcomes:
                        self._judge(outcome)
                case Send(peer, wire.Output(pieces)):
                    for piece in pieces:
                        self._judge_output(piece, peer)
        if any(what == "placed" for what, _ in story):
            self._judge_grants(story)

    def _judge(self, outcome: Outcome) -> None:
        said = self.outcomes.setdefault(outcome.job_id, outcome.outcome)
        assert said == outcome.outcome, f"{outcome.job_id} was {said}, is {outcome.outcome}"
        if outcome.outcome == "succeeded" and outcome.payload:
            job_id, attempt, body = outcome.payload.decode().split()
            assert body == "real", f"{outcome.job_id} returned the value of its stand-in"
            assert job_id == outcome.job_id, "a value of another job"
            assert int(attempt) == self._book.jobs[job_id].attempt, "an older attempt's value"

    def _judge_output(self, piece: Piece, peer: Peer) -> None:
        job = self._book.jobs[piece.job_id]
        watchers = [self._book.sessions[name].peer for name in job.watchers]
        assert peer in watchers, f"{piece} was told to somebody who does not wait for it"
        assert job.live, f"{piece} came after the end of its job"
        assert job.attempt == piece.attempt, f"{piece} is of another attempt"

    def _judge_grants(self, story: list[tuple[str, object]]) -> None:
        """Check each grant against what was promised and measured when it was made."""
        by_number: dict[object, Job] = {job.number: job for job in self._book.jobs.values()}
        jobs = [(what, by_number[number]) for what, number in story]
        for at, (what, job) in enumerate(jobs):
            if what != "placed":
                continue
            later = {one.job_id for what, one in jobs[at + 1 :] if what == "placed"}
            still = {one.job_id for what, one in jobs[at + 1 :] if what == "ended"}
            exempt = self._exempt(job, later | {job.job_id}, still)
            ledger = self._book.workers[job.worker].ledger
            promised = sum(
                max(lease.lease_bytes, lease.used_bytes)
                for job_id, lease in ledger.leases.items()
                if job_id not in exempt and job_id not in later
            )
            total = promised + ledger.foreign_bytes + ledger.idle_bytes
            nothing = ledger.leases[job.job_id].lease_bytes == 0
            assert nothing or total <= ledger.facts.total_bytes, (
                f"{job.job_id} was granted on {job.device}: {total} of "
                f"{ledger.facts.total_bytes} bytes"
            )

    def _exempt(self, job: Job, later: set[str], still: set[str]) -> set[str]:
        """Who waits for this job: its ancestors, or everybody if nobody would ever end."""
        ancestors = set(self._ancestors(job))
        leased = {
            job_id
            for worker in self._book.workers.values()
            for job_id in worker.ledger.leases
            if job_id not in later
        }
        waiting = {
            child.spec.parent
            for child in self._book.jobs.values()
            if (child.live or child.job_id in still) and not child.spec.detached
        }
        return ancestors | leased if ancestors and leased <= waiting else ancestors

    def _ancestors(self, job: Job) -> Iterator[str]:
        parent = self._book.jobs.get(job.spec.parent)
        while parent is not None and parent.live:
            yield parent.job_id
            parent = self._book.jobs.get(parent.spec.parent)
