"""The states of jobs in words and short codes, and how a job that has ended did so."""

from collections.abc import Iterable
from signal import Signals
from typing import Final

from ..facts import JobRow
from ..units import spell_seconds

# As Slurm's users know them, as far as Slurm has such a state.
CODES: Final = {
    "queued": "PD",
    "held": "H",
    "assigned": "CF",
    "running": "R",
    "succeeded": "CD",
    "failed": "F",
    "killed": "K",
    "oom": "OOM",
    "timed-out": "TO",
    "cancelled": "CA",
    "lost": "NF",
    "expired": "DL",
}
LIVE: Final = frozenset({"queued", "held", "assigned", "running"})
# Those whose user would want to know; who cancels knows.
FAILURES: Final = frozenset({"failed", "killed", "oom", "timed-out", "lost", "expired"})

_OTHER_NAMES: Final = {
    "pending": "queued",
    "waiting": "queued",
    "starting": "assigned",
    "completed": "succeeded",
    "done": "succeeded",
    "timeout": "timed-out",
    "canceled": "cancelled",
}
_BY_CODE: Final = {code.lower(): state for state, code in CODES.items()}

HELD: Final = "held"

# What timeout(1) leaves with, and shells after Ctrl-C and after other signals.
TIMED_OUT: Final = 124
CANCELLED: Final = 130
BY_SIGNAL: Final = 128
# By convention: the command itself may have meant something else.
_HINTS: Final = {126: " (cannot be run)", 127: " (no such command)"}


def state_of(row: JobRow) -> str:
    """Its state, where a job that is held is not just queued."""
    return HELD if row.state == "queued" and row.waits_for == HELD else row.state


def parse_states(text: str) -> frozenset[str]:
    """Turn `queued,R,failed` into states.

    Raises:
        ValueError: One of them is none; the text names it and those there are.
    """
    return frozenset(_parse(word.strip().lower()) for word in text.split(","))


def _parse(word: str) -> str:
    state = _BY_CODE.get(word) or _OTHER_NAMES.get(word, word)
    if state not in CODES:
        known = ", ".join(f"{one} ({code})" for one, code in CODES.items())
        raise ValueError(f"{word!r} is no state: write {known}")
    return state


def result_of(row: JobRow) -> str:
    """How a job ended, or under which pid it runs: `exit 3`, `SIGKILL`, `pid 4711`."""
    if row.state in LIVE:
        return f"pid {row.pid}" if row.pid and row.state == "running" else ""
    if row.signal:
        return signal_name(row.signal)
    if row.exit_status is not None:
        hint = _HINTS.get(row.exit_status, "") if row.kind == "command" else ""
        return f"exit {row.exit_status}{hint}"
    return "exit 0" if row.state == "succeeded" and row.kind == "command" else ""


def reason_of(row: JobRow) -> str:
    """What it waits for, or why it ended, unless its result says the same in fewer words."""
    repeated = (f"exited with status {row.exit_status}", f"killed by signal {row.signal}")
    return "" if row.why in repeated else row.why or idle_of(row)


def idle_of(row: JobRow) -> str:
    """`idle for 12m`, of a lease whose holder has not used its devices for so long."""
    minutes = int(row.idle_s or 0.0) // 60
    return f"idle for {spell_seconds(minutes * 60)}" if minutes else ""


def signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_status_of(row: JobRow) -> int:
    """With what to leave after waiting for a job: its own status, or what shells make of it."""
    match row.state:
        case "succeeded":
            return 0
        case "timed-out":
            return TIMED_OUT
        case "cancelled":
            return CANCELLED
    if row.signal:
        return BY_SIGNAL + row.signal
    return row.exit_status or 1


def number_ranges(numbers: Iterable[int], comma: str = ", ") -> str:
    """`3-5, 7` of 3, 4, 5 and 7; with `comma=","` a reference that means them all."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return comma.join(str(one) if one == other else f"{one}-{other}" for one, other in spans)


def jobs_named(numbers: Iterable[int]) -> str:
    """`job 3`, or `jobs 3-5, 7`."""
    found = set(numbers)
    return f"job{'' if len(found) == 1 else 's'} {number_ranges(found)}"


def lines_about(told: Iterable[tuple[int, str]]) -> list[str]:
    """`job 3 was lost`, `jobs 4-900: each was cancelled`: a line for what is the same of many.

    Args:
        told: Numbers of jobs, and what each of them is or does.
    """
    alike: dict[str, list[int]] = {}
    for number, text in told:
        alike.setdefault(text, []).append(number)
    return [
        f"{jobs_named(numbers)}{': each' if len(numbers) > 1 else ''} {text}"
        for text, numbers in alike.items()
    ]
