"""All that is known of one job, in groups of facts that a person reads."""

from collections.abc import Iterator, Mapping
from typing import Final

from ..facts import JobDetail, JobRow, Tried
from ..units import format_bytes, format_seconds
from .queues.texts import has_text, needs_text
from .states import CODES, LIVE, reason_of, result_of, state_of
from .when import local, times_of

Fact = tuple[str, str]
Group = tuple[str, list[Fact]]

# What ends a value of several lines in the second column.
LAST_LINES: Final = "last lines"


def describe(
    row: JobRow, detail: JobDetail, log: str, numbers: Mapping[str, int], now_s: float
) -> list[Group]:
    """Give the groups that have something to say.

    Args:
        log: The file with what it printed, or nothing.
        numbers: Those of the jobs that it names by id, as far as they are known.
    """
    groups = [
        ("Job", list(_identity(row, detail, numbers))),
        ("State", list(_state(row, detail, numbers))),
        ("Times", list(_times(row, detail, now_s))),
        ("Memory", list(_memory(row, detail))),
        ("Resources", list(_resources(row))),
        ("Attempts before", [(f"attempt {one.attempt}", tried(one)) for one in detail.tried]),
        ("Options", list(_options(row, detail))),
        ("Output", list(_output(row, detail, log))),
    ]
    return [(title, facts) for title, facts in groups if facts]


def _identity(row: JobRow, detail: JobDetail, numbers: Mapping[str, int]) -> Iterator[Fact]:
    yield "number", str(row.number)
    yield "id", row.job_id
    if row.name:
        yield "name", row.name
    if row.title:
        yield "command", row.title
    if row.job_type != row.title:
        yield "type", row.job_type
    if detail.by:
        yield "by", ", ".join(f"{name}={value}" for name, value in sorted(detail.by.items()))
    yield "kind", f"{row.kind}, {'detached' if row.detached else 'ends with its client'}"
    if row.client_pid:
        yield "client", f"pid {row.client_pid}"
    if detail.parent:
        yield "part of", _job(detail.parent, numbers)
    if row.again_of:
        yield "again of", _job(row.again_of, numbers)


def _state(row: JobRow, detail: JobDetail, numbers: Mapping[str, int]) -> Iterator[Fact]:
    state = state_of(row)
    notes = ", measuring" if row.measuring else ""
    yield "state", f"{state} ({CODES[state]}){notes}"
    if row.device:
        yield "device", row.device
    if result := result_of(row):
        yield ("process" if row.state in LIVE else "result"), result
    if reason := reason_of(row):
        yield ("reason" if row.state in LIVE else "error"), reason
    if detail.after:
        yield "after", ", ".join(_job(one, numbers) for one in detail.after)
    if detail.held and state != "held":
        yield "held", "yes"
    if row.state not in LIVE:
        again = f"grn retry {row.number}" if detail.can_retry else "no: its inputs are not kept"
        yield "run again", again


def _times(row: JobRow, detail: JobDetail, now_s: float) -> Iterator[Fact]:
    times = times_of(row, now_s)
    yield "submitted", local(times.submitted_s)
    if detail.begin_in_s is not None:
        yield "begins", local(now_s + detail.begin_in_s)
    if times.started_s is not None:
        yield "started", local(times.started_s)
    if times.ended_s is not None:
        yield "ended", local(times.ended_s)
    yield "waited", format_seconds(row.wait_s)
    if times.started_s is not None:
        yield "ran", format_seconds(row.run_s)


def _memory(row: JobRow, detail: JobDetail) -> Iterator[Fact]:
    sizes = {
        "declared": detail.memory_bytes,
        "predicted": row.predicted_bytes,
        "leased": row.lease_bytes,
        "measured": row.used_bytes,
        "peak": row.peak_bytes,
    }
    yield from ((name, format_bytes(size)) for name, size in sizes.items() if size)
    if detail.fit:
        yield "fit", f"{detail.fit} of these{f' on {row.device}' if row.device else ''}"


def _resources(row: JobRow) -> Iterator[Fact]:
    if row.queue:
        yield "queue", row.queue
    if needed := needs_text(row):
        yield "needs", needed
    if row.granted and row.state in LIVE:
        yield "has", has_text(row.granted)
    if row.environment:
        yield "environment", row.environment


def tried(one: Tried) -> str:
    """`on host:0: out of memory; predicted 100 MiB, peak 300 MiB, ran 3.0 s`."""
    known = f"predicted {format_bytes(one.predicted_bytes)}, " if one.predicted_bytes else ""
    peak = f"{known}peak {format_bytes(one.peak_bytes)}"
    return f"on {one.device}: {one.why}; {peak}, ran {format_seconds(one.run_s)}"


def _options(row: JobRow, detail: JobDetail) -> Iterator[Fact]:
    yield "priority", str(row.priority)
    yield "policy", detail.policy
    if detail.exclusive:
        yield "exclusive", "yes"
    if detail.timeout_s is not None:
        yield "timeout", f"{format_seconds(detail.timeout_s)} to wait"
    if detail.time_limit_s is not None:
        yield "time limit", format_seconds(detail.time_limit_s)
    yield "grace", format_seconds(detail.grace_s)
    if detail.retries:
        only = f", after {', '.join(detail.retry_on)}" if detail.retry_on else ""
        yield "retries", f"{detail.retried} of {detail.retries} used{only}"
    yield "oom retries", f"{detail.ooms} of {detail.oom_retries} used"
    if detail.enforce:
        yield "enforce", "yes"
    if detail.on_end:
        yield "on end", detail.on_end
    for name, value in sorted(detail.variables.items()):
        yield "variable", f"{name}={value}"


def _output(row: JobRow, detail: JobDetail, log: str) -> Iterator[Fact]:
    if log:
        yield "log", log
    if detail.last_lines.strip() and row.state not in LIVE and row.state != "succeeded":
        yield LAST_LINES, detail.last_lines.strip("\r\n")


def _job(job_id: str, numbers: Mapping[str, int]) -> str:
    number = numbers.get(job_id)
    return f"job {number}" if number else f"job {job_id[:8]}"
