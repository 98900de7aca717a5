"""What a worker keeps: attempts it was given, and the job processes they run in."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from grn_zmq.records import Leased, Result, Run

from .measured import Measured

# Of standard error, where a program that fails says why; in bytes.
LAST_WORDS_BYTES: Final = 8192
# Of both streams, for whoever asks what a job did last: a screen's worth of lines.
LAST_LINES: Final = 20
LAST_LINES_CHARACTERS: Final = 4096
_LAST_LINES_BYTES: Final = 4 * LAST_LINES_CHARACTERS

# Kinds of job whose body runs in its caller's own process.
INLINE: Final = frozenset({"inline", "lease"})


class Phase(StrEnum):
    LACKS_BLOBS = "lacks blobs"
    KEEPING = "being written down"
    RUNNING = "running"
    ENDING = "ending"


class Member(NamedTuple):
    """One call of a train, and its place in it."""

    place: int
    job_id: str
    attempt: int
    number: int
    payload: bytes

    @property
    def key(self) -> tuple[str, int]:
        return self.job_id, self.attempt


@dataclass(slots=True)
class ActiveRun:
    """One attempt in this worker's hands.

    `result` is what the job process said; it is kept back until that process is proved
    gone, or clean enough to be used again. Only then is the memory free. `timed_out` says
    that it was asked to end because it ran too long; `unwatched` that nobody here can tell
    when its caller ends, so the broker has to; `told` that the broker knows of its start, which
    of one that follows another is told only if it takes long.
    """

    run: Run
    phase: Phase
    began_at: float | None = None
    process: int | None = None
    measured: Measured = field(default_factory=Measured)
    asked_to_end: bool = False
    leaving: bool = False
    timed_out: bool = False
    unwatched: bool = False
    told: bool = True
    deadline: float | None = None
    next_signal: int | None = None
    result: Result | None = None
    _last_words: bytes = b""
    _last_output: bytes = b""

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self._last_words.decode(errors="replace")

    @property
    def last_lines(self) -> str:
        """The end of what it printed, fit to be shown."""
        lines = self._last_output.decode(errors="replace").replace("\r\n", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        shown = [_shown(line) for line in lines[-LAST_LINES:]]
        return "\n".join(shown)[-LAST_LINES_CHARACTERS:]

    def hear(self, data: bytes, stream: str = "stderr") -> None:
        """Take note of what it wrote."""
        kept = self._last_output + data[-_LAST_LINES_BYTES:]
        self._last_output = kept[-_LAST_LINES_BYTES:]
        if stream == "stderr":
            kept = self._last_words + data[-LAST_WORDS_BYTES:]
            self._last_words = kept[-LAST_WORDS_BYTES:]

    @property
    def limit_at(self) -> float | None:
        """When it will have run for as long as it may; None if it may for ever."""
        if self.began_at is None or self.run.time_limit_s is None:
            return None
        return self.began_at + self.run.time_limit_s

    def ran_s(self, now: float) -> float:
        """Seconds since it began; 0 if it has not."""
        return 0.0 if self.began_at is None else now - self.began_at

    @property
    def digests(self) -> tuple[str, ...]:
        """The blobs without which it cannot begin."""
        return tuple(digest for digest in (self.run.function, self.run.context) if digest)

    @property
    def inline(self) -> bool:
        """Whether it runs in its caller's own process, which was there before."""
        return self.run.kind in INLINE


def _shown(line: str) -> str:
    """A line as a terminal would show it at last, control characters made visible."""
    last = line.rstrip("\r").rpartition("\r")[2]  # a progress bar draws over itself
    return "".join(one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in last)


@dataclass(slots=True)
class Process:
    """One job process. Idle while `job_id` is empty; then `idle_since` says for how long."""

    key: int
    session: str
    job_type: str
    context: str
    devices: tuple[Leased, ...]
    job_id: str
    idle_since: float | None = None
    kill_at: float | None = None
    function: str = ""
    ready: bool = False

    def idle_for(self, now: float) -> float:
        """Seconds without a job; 0 while it has one or is being ended."""
        if self.idle_since is None or self.kill_at is not None:
            return 0.0
        return now - self.idle_since

    def serves(self, run: Run) -> bool:
        """Whether this attempt may use it: same client, type, context and devices only."""
        mine = (self.session, self.job_type, self.context, self.devices)
        theirs = (run.session, run.job_type, run.context, run.devices)
        return self.idle_since is not None and self.kill_at is None and mine == theirs


class Processes(dict[int, Process]):
    """The job processes of one worker, by key."""

    def new(self, run: Run) -> Process:
        """Count in a process that is about to be launched for this attempt."""
        key = max(self, default=0) + 1
        self[key] = Process(
            key, run.session, run.job_type, run.context, run.devices, run.job_id
        )
        return self[key]

    def serving(self, run: Run) -> Process | None:
        """An idle process that this attempt may use."""
        return next((one for one in self.values() if one.serves(run)), None)

    def idle(self, session: str = "", job_type: str = "") -> list[Process]:
        """Those without a job, the longest idle first; of one client or type, if named."""
        found = [
            one
            for one in self.values()
            if one.idle_since is not None
            and one.kill_at is None
            and session in ("", one.session)
            and job_type in ("", one.job_type)
        ]
        return sorted(found, key=lambda one: one.idle_since or 0.0)
