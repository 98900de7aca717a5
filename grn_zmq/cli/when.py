"""Times: for people as the clock on their wall shows them, for machines as ISO 8601 in UTC."""

import time
from dataclasses import dataclass

from ..facts import JobRow


@dataclass(frozen=True, slots=True)
class Times:
    """When a job was submitted, when its last attempt started, when it ended; since 1970."""

    submitted_s: float
    started_s: float | None
    ended_s: float | None


def times_of(row: JobRow, now_s: float) -> Times:
    """The broker tells how long ago it was, so that its clock need not be ours."""
    ended_s = None if row.ended_s is None else now_s - row.ended_s
    ran_until_s = now_s if ended_s is None else ended_s
    started = has_begun(row) and row.state not in ("queued", "assigned")
    return Times(now_s - row.age_s, ran_until_s - row.run_s if started else None, ended_s)


def has_begun(row: JobRow) -> bool:
    """Whether it ever ran; one that needs no device has none, and yet runs."""
    return bool(row.device or row.run_s)


def iso(at_s: float | None) -> str | None:
    """`2026-01-31T12:00:00.250Z`."""
    if at_s is None:
        return None
    whole, thousandths = divmod(round(at_s * 1000), 1000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{thousandths:03}Z", time.gmtime(whole))


def local(at_s: float) -> str:
    """`2026-01-31 13:00:00`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
