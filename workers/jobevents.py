"""What goes into a job process, and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from grn_zmq import channel
from grn_zmq.boxing import Box
from grn_zmq.frameworks import Counters
from grn_zmq.requiring import require_token

# Of the bases of an exception, and of the name of one, in characters.
MOST_BASES: Final = 64
MOST_NAMED: Final = 256

Stream = Literal["stdout", "stderr"]
Ending = Literal["succeeded", "failed", "exited", "oom"]
ENDINGS: Final[Mapping[object, Ending]] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "exited": "exited",
    "oom": "oom",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a job, as the job process gets it."""

    job_id: str
    attempt: int
    kind: Literal["call", "command"]
    function: str = ""
    """Digest of `function_blob`; the blob is not sent again for the same function in a row."""
    function_blob: bytes = field(default=b"", repr=False)
    content: bytes = field(default=b"", repr=False)
    """Pickled arguments of a call, or the packed words of a command."""
    stand_in: bool = False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    """What `{gpu}` and the like stand for in the words of a command."""
    stdin: str = ""
    """A FIFO that a command reads; empty for none."""
    on_host: bool = False
    """Whether the device is a share of the machine's memory."""
    total_bytes: int = 0
    cap_bytes: int = 0
    """What it is held to of the device's total; 0 for no cap."""
    token: str = ""
    """The parcel that has the content, if that is large."""
    parcels: tuple[str, ...] = ()
    """The directories of parcels, in memory and on disk; without them all is sent inline."""
    session: str = ""
    detached: bool = False
    """Whose a large result is, and whether it must survive a power cut."""
    young: bool = True
    """Whether little is known of its type: its peak is measured exactly then."""
    late: str = ""
    """Where the answer is left if the body has closed our socket."""
    prefix: tuple[str, ...] = ()
    # What every command of its queue begins with, whoever submitted it.
    queue_prefix: tuple[str, ...] = ()
    # What `python` means to it, if its environment has one of its own.
    python: str = ""
    """The words of its environment, before those of a command."""
    box: Box | None = None
    """Where a call is put that runs in an environment."""


@dataclass(frozen=True, slots=True)
class Packet:
    """Calls of a train as the job process gets them: what differs from the first, in columns.

    `late` is where answers are left, without the names of the attempts.
    """

    train: int
    slot: int
    first: int
    job_ids: list[str]
    attempts: list[int]
    numbers: list[int]
    payloads: list[bytes] = field(repr=False)
    marks: int
    late: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The job process is set up and waits for its first run."""

    pid: int


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes the current run wrote."""

    stream: Stream
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The function of the current run ended; all its output came before."""

    outcome: Ending
    exit_status: int | None
    error_type: str
    error_text: str
    threads: int
    children: bool
    clean: bool
    """The process may be used again."""
    before_bytes: int
    peak_bytes: int
    """Peak of the job process itself; `before_bytes` is what it had before the call."""
    asked_bytes: int | None
    """What it could not get when it ran out of memory, 0 if not told; None if it did not."""
    counters: Counters
    body: bytes = field(repr=False)
    """The pickled value, or the dumped exception."""
    error_bases: tuple[str, ...] = ()
    """The names of the exception's class and all its bases."""
    token: str = ""
    """The parcel that has the body, if that is large."""
    kept_bytes: int = 0
    """What it keeps mapped of files, for large arguments and results of its next run."""
    alone: bool = False
    """Nothing else lives below its keeper, as far as the job process can tell."""


@dataclass(frozen=True, slots=True)
class Values:
    """Calls of a train returned these, from the current one on; nothing else is to be said."""

    run_s: list[float]
    payloads: list[bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotBegun:
    """So many calls of a train, the last that were fed, never began: the process is gone."""

    how_many: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The job process and everything below it is gone; nothing follows."""

    status: int | None
    signal: int | None
    max_rss_bytes: int
    left_over: int
    """How many processes had to be killed besides the job process."""
    error_text: str = ""
    """What the interpreter said, if the process never became ready."""


Event = Ready | Output | Outcome | Values | NotBegun | Exited


def header_of(run: Run, blob: bytes) -> dict[str, object]:
    """Give what a job process is told of a run; `blob` is the function, if it lacks it."""
    return {
        "job_id": run.job_id,
        "attempt": run.attempt,
        "kind": run.kind,
        "stand_in": run.stand_in,
        "environment": dict(run.environment),
        "placeholders": dict(run.placeholders),
        "function": run.function,
        "function_size": len(blob),
        "stdin": run.stdin,
        "on_host": run.on_host,
        "total_bytes": run.total_bytes,
        "cap_bytes": run.cap_bytes,
        "token": run.token,
        "parcels": list(run.parcels),
        "session": run.session,
        "detached": run.detached,
        "young": run.young,
        "late": run.late,
        "prefix": list(run.prefix),
        "queue_prefix": list(run.queue_prefix),
        "python": run.python,
        "box": run.box.as_map() if run.box else None,
    }


def outcome_in(packet: channel.Packet) -> Outcome:
    """Give what a job process answered.

    Raises:
        ValueError: It is no answer.
    """
    header = packet.header
    status, asked_bytes = header.get("exit_status"), header.get("asked_bytes")
    outcome = ENDINGS.get(header.get("outcome"))
    if outcome is None:
        raise ValueError("a packet of the job process is not an outcome")
    return Outcome(
        outcome=outcome,
        exit_status=status if isinstance(status, int) else None,
        error_type=str(header.get("error_type", "")),
        error_text=str(header.get("error_text", "")),
        threads=number_in(header, "threads"),
        children=bool(header.get("children")),
        clean=bool(header.get("clean")),
        before_bytes=number_in(header, "before_bytes"),
        peak_bytes=number_in(header, "peak_bytes"),
        asked_bytes=asked_bytes if isinstance(asked_bytes, int) else None,
        counters=Counters(*(number_in(header, name) for name in Counters._fields)),
        body=packet.body,
        error_bases=_texts(header.get("error_bases")),
        token=_token(header.get("token")),
        kept_bytes=number_in(header, "kept_bytes"),
        alone=bool(header.get("alone")),
    )


def _token(value: object) -> str:
    token = str(value or "")
    if token:
        require_token(token)
    return token


def _texts(value: object) -> tuple[str, ...]:
    """A few short texts; the job process is not to be trusted with the size of messages."""
    if not isinstance(value, list):
        return ()
    return tuple(str(one)[:MOST_NAMED] for one in value[:MOST_BASES])


def number_in(header: Mapping[str, object], name: str) -> int:
    """Give a number of a header; 0 if it is none."""
    value = header.get(name)
    return value if isinstance(value, int) else 0
