"""Facts for lists, asked of the broker, and how they look to a person."""

from dataclasses import asdict
from typing import Any

from ..client import this_client
from ..records import DeviceRow, JobRow, ProfileRow
from ..units import format_bytes
from ..wire import AskDevices, AskJobs, AskProfiles, DevicesAre, JobsAre, ProfilesAre


def all_jobs(*, ended: bool) -> list[JobRow]:
    """Ask for jobs until there are no more."""
    rows: list[JobRow] = []
    more = True
    while more:
        after = rows[-1].number if rows else 0
        answer = this_client().ask(AskJobs(after, ended), JobsAre)
        rows += answer.rows
        more = answer.more
    return rows


def all_devices() -> list[DeviceRow]:
    rows = this_client().ask(AskDevices(), DevicesAre).rows
    return sorted(rows, key=lambda row: (row.facts.kind, row.facts.index))


def all_profiles() -> list[ProfileRow]:
    """Ask for profiles until there are no more, in the order of their types."""
    rows: list[ProfileRow] = []
    more = True
    while more:
        answer = this_client().ask(AskProfiles(len(rows)), ProfilesAre)
        rows += answer.rows
        more = answer.more
    return sorted(rows, key=lambda row: (row.job_type, row.device_class, row.devices))


def job_facts(row: JobRow) -> dict[str, Any]:
    return asdict(row)


def device_facts(row: DeviceRow) -> dict[str, Any]:
    facts = asdict(row)
    return {**facts.pop("facts"), **facts}


def bytes_or_dash(size: int) -> str:
    return format_bytes(size) if size else "-"


def seconds(value: float) -> str:
    """Short enough for a column: 0.4 s, 12 s, 3:07, 2:00:05."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 60:
        return f"{value:.0f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
