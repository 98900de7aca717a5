"""What bodies wrote, what clients were told and what the broker keeps, joined and judged."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.changes import KeptJob
from broker.members import Members
from broker.trainloading import TrainReader
from tests.waiting import processes_marked

# How a job may end without having been asked to, if a process that had it was killed.
BY_FAULT = frozenset({"lost", "killed"})


@dataclass(frozen=True)
class Verdict:
    """How often each of the six things happened that must never happen, and where."""

    lost: int = 0
    duplicate: int = 0
    double_start: int = 0
    unexpected: int = 0
    stuck: int = 0
    orphan: int = 0
    findings: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.findings


@dataclass
class Story:
    """All that is known of one job."""

    job_id: str
    submitted: Mapping[str, Any] | None = None
    accepted: bool = False
    refused: bool = False
    gave_up: bool = False
    client_alive: bool = False
    told: list[tuple[str, Any]] = field(default_factory=list)
    starts: int = 0
    finishes: int = 0
    rows: int = 0
    live: str = ""
    outcomes: list[str] = field(default_factory=list)

    @property
    def detached(self) -> bool:
        return self.submitted is not None and bool(self.submitted["detached"])

    @property
    def ends(self) -> set[str]:
        return {*self.outcomes, *(word for word, _ in self.told)}


class Ledger:
    """The lines that bodies wrote: `start <job> <attempt> <pid>`, and `finish` likewise."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[list[str]]:
        """The whole lines so far, in order."""
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def count(self, what: str) -> int:
        return sum(1 for line in self.lines() if line[0] == what)

    def pids(self) -> dict[str, int]:
        """The process of each job that has started and not finished."""
        found: dict[str, int] = {}
        for what, job_id, _, pid in self.lines():
            if what == "start":
                found[job_id] = int(pid)
            else:
                found.pop(job_id, None)
        return found


def read_history(path: Path) -> list[dict[str, Any]]:
    """What one client wrote down; a torn last line was not written."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line[-1] == "\n"]


def outcomes_in(state: Path) -> list[tuple[str, str]]:
    """How the jobs ended that the broker keeps now."""
    query = "SELECT job_id, outcome FROM outcomes JOIN jobs USING (number)"
    with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as database:
        alone = list(database.execute(query))
        ends = [one.end for one in of_trains(database) if one.end is not None]
    return [*alone, *((one.job_id, one.outcome.outcome) for one in ends)]


def of_trains(database: sqlite3.Connection) -> list[KeptJob]:
    """The jobs that the broker keeps together."""
    reader = TrainReader(database, Members())
    return [job for row in reader.trains() for job in reader.jobs(row, 0.0, lambda *_: 0.0)]


class Checker:
    """Judges a run that has settled.

    Args:
        state: The broker's database; it is only read.
        histories: What clients wrote, and whether they are to be believed when they say
            nothing: a client that was killed, or that left, was told no ends.
        mark: Name and value of the variable that all processes of the run have.
        known: Processes of the run that may live: the supervisor with all below it, clients.
        seen: Outcomes that were in the database at some time. The broker forgets the oldest
            of very many ended jobs, but none may ever have had another outcome.
    """

    def __init__(
        self,
        ledger: Ledger,
        histories: Iterable[tuple[Path, bool]],
        state: Path,
        mark: tuple[str, str] | None = None,
        known: Collection[int] = (),
        seen: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._stories: dict[str, Story] = {}
        self._mark = mark
        self._known = frozenset(known)
        for path, stayed in histories:
            for event in read_history(path):
                self._note(event, stayed)
        for what, job_id, _, _ in ledger.lines():
            story = self._story(job_id)
            story.starts += what == "start"
            story.finishes += what == "finish"
        self._read(state)
        for job_id, word in seen:
            story = self._story(job_id)
            story.rows = story.rows or 1
            if word not in story.outcomes:
                story.outcomes.append(word)

    def _story(self, job_id: str) -> Story:
        return self._stories.setdefault(job_id, Story(job_id))

    def _note(self, event: Mapping[str, Any], stayed: bool) -> None:
        if "job" not in event:
            return
        story = self._story(event["job"])
        story.client_alive = stayed
        match event["event"]:
            case "submitted":
                story.submitted = event
            case "accepted":
                story.accepted = True
            case "refused":
                story.refused = True
            case "gave-up":
                story.gave_up = True
            case "told":
                story.told.append((event["outcome"], event["value"]))

    def _read(self, state: Path) -> None:
        with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as database:
            ids: dict[int, str] = {}
            for number, job_id in database.execute("SELECT number, job_id FROM jobs"):
                ids[number] = job_id
                self._story(job_id).rows += 1
            for number, live in database.execute("SELECT number, state FROM lives"):
                self._story(ids.get(number, f"#{number}")).live = live
            for number, word in database.execute("SELECT number, outcome FROM outcomes"):
                self._story(ids.get(number, f"#{number}")).outcomes.append(word)
            together = of_trains(database)
        for job in together:
            story = self._story(job.new.spec.job_id)
            story.rows += 1
            if job.life is not None:
                story.live = job.life.state
            if job.end is not None:
                story.outcomes.append(job.end.outcome.outcome)

    def verdict(self, also: Collection[str] = ()) -> Verdict:
        """Judge; `also` are the ends that the injected fault may cause, such as `lost`."""
        found: list[tuple[str, str]] = []
        for story in self._stories.values():
            found += ((kind, f"{story.job_id}: {why}") for kind, why in _faults(story, also))
        found += (("orphan", text) for text in self._orphans())
        counts = Counter(kind for kind, _ in found)
        return Verdict(**counts, findings=tuple(f"{kind}: {text}" for kind, text in found))

    def assert_clean(self, also: Collection[str] = ()) -> None:
        verdict = self.verdict(also)
        assert verdict.clean, "\n".join(verdict.findings)

    def outcomes(self) -> Counter[str]:
        """How many jobs ended in which way, by what the broker keeps or has told."""
        return Counter(word for story in self._stories.values() for word in story.ends)

    def starts(self) -> dict[str, int]:
        """How often the body of each job has started."""
        return {story.job_id: story.starts for story in self._stories.values()}

    def _orphans(self) -> Iterable[str]:
        if self._mark is None:
            return
        ended = {story.job_id for story in self._stories.values() if story.ends}
        for pid, command in processes_marked(*self._mark).items():
            job_id = _variable(pid, "GRN_JOB_ID")
            if job_id in ended:
                yield f"{pid} of ended job {job_id}: {command}"
            elif not self._known & set(_ancestry(pid)) and _variable(pid, self._mark[0]):
                yield f"{pid} below nobody: {command}"  # and not one that was just ending


def _faults(story: Story, also: Collection[str]) -> Iterable[tuple[str, str]]:
    accepted = story.accepted or bool(story.told)
    if accepted and not story.rows and not story.told:
        yield "lost", "accepted, but the broker has no record of it"
    if story.starts and not story.rows and not story.told and not story.submitted:
        yield "lost", "its body ran, but nobody knows of it"
    if story.rows > 1 or len(story.outcomes) > 1 or (story.live and story.outcomes):
        yield "duplicate", f"{story.rows} records, {story.outcomes}, live as {story.live!r}"
    if len({word for word, _ in story.told}) > 1:
        yield "duplicate", f"told {story.told}"
    most = 1 + (int(story.submitted["retries"]) if story.submitted else 0)
    if story.starts > most:
        yield "double_start", f"{story.starts} starts, {most} allowed"
    yield from (("unexpected", why) for why in _contradictions(story, also))
    if story.live:
        yield "stuck", f"still {story.live}"
    silent = story.client_alive and not (story.told or story.refused or story.gave_up)
    if story.submitted and silent and not story.live:
        yield "stuck", "its client was never told of its end"


def _contradictions(story: Story, also: Collection[str]) -> Iterable[str]:
    if story.outcomes and story.told and {word for word, _ in story.told} != {*story.outcomes}:
        yield f"told {story.told}, but {story.outcomes} is kept"
    if "succeeded" in story.ends and not story.finishes:
        yield "succeeded without having finished"
    if "failed" in story.ends and not story.starts:
        yield "failed without having started"
    if story.refused and (story.starts or story.outcomes):
        yield "refused, and yet it ran"
    if story.submitted is None:
        return
    allowed = {story.submitted["outcome"], *also}
    if not story.client_alive and not story.detached:
        allowed.add("cancelled")  # nobody waits for it any more
    if wrong := story.ends - allowed:
        yield f"ended as {wrong}"
    for word, value in story.told:
        if word == "succeeded" and value != story.submitted["value"]:
            yield f"gave {value} instead of {story.submitted['value']}"


def _variable(pid: int, name: str) -> str:
    """The value a process was started with; empty if none, or if it has ended."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    begin = f"{name}=".encode()
    return next((e[len(begin) :].decode() for e in entries if e.startswith(begin)), "")


def _ancestry(pid: int) -> list[int]:
    """A process and all above it."""
    found = []
    while pid > 1:
        found.append(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found
