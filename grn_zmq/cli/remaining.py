"""What else is in the broker of a `grn run` when its own commands have ended."""

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from ..errors import BrokerUnavailable
from ..facts import JobRow
from ..wire import Stop, Stopping
from .asking import ask
from .common import counted, say
from .listing import all_jobs

LOOK_AGAIN_S: Final = 0.2
# What only a person or a clock ends: nobody waits for that at a prompt.
KEPT_BACK: Final = frozenset({"held", "begin-time", "paused", "draining"})


def last_number() -> int:
    """The highest number of a job that waits or runs; 0 if there is none."""
    return max((row.number for row in all_jobs(ended=False)), default=0)


def wait_for_others(before: int) -> None:
    """Let jobs end that others submitted meanwhile, or that were spawned.

    What was kept from earlier and still waits stays for the next start; what of it runs may
    end, but nothing more of it starts.

    Args:
        before: The last number that is not of this time.
    """
    with contextlib.suppress(BrokerUnavailable):  # somebody else has stopped it
        rows = all_jobs(ended=False)
        _announce(going_on(rows, before))
        while going_on(rows, before):
            time.sleep(LOOK_AGAIN_S)
            rows = all_jobs(ended=False)
        if kept := sum(map(_waits, rows)):
            say(f"grn: {_stay(kept)} for the next start: grn start", err=True)
        if running := [row for row in rows if not _waits(row)]:
            ask(Stop(drain=True), Stopping)
            _announce(running)
        while any(not _waits(row) for row in rows):
            time.sleep(LOOK_AGAIN_S)
            rows = all_jobs(ended=False)


def going_on(rows: Sequence[JobRow], before: int) -> list[JobRow]:
    """Those that came after a number and end by themselves; none if all wait for the rest.

    Who was not detached came with a program of this time, whatever its number.
    """
    new = [row for row in rows if row.number > before or not row.detached]
    able = [row for row in new if not (_waits(row) and row.waits_for in KEPT_BACK)]
    # Who runs after others comes once those have ended, so some of these must get there.
    return able if any(row.waits_for != "dependency" for row in able) else []


def _announce(rows: Sequence[JobRow]) -> None:
    if not rows:
        return
    runs = any(not _waits(row) for row in rows)
    those = "it" if len(rows) == 1 else "those that run"
    leave = f"ends {those}" if runs else "leaves what waits for the next start"
    say(f"grn: waiting for {counted(len(rows), 'more job')} here; Ctrl-C {leave}", err=True)


def _waits(row: JobRow) -> bool:
    return row.state == "queued"


def _stay(count: int) -> str:
    return f"{counted(count, 'queued job')} stay{'s' if count == 1 else ''}"
