"""Facts for lists, asked of the broker, and how they look to a person."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from ..facts import DeviceRow, JobRow, ProfileRow
from ..naming import short_type
from ..units import GIB, KIB, MIB, TIB, format_bytes
from ..wire import AskDevices, AskJobs, AskProfiles, DevicesAre, JobsAre, ProfilesAre
from .asking import ask
from .states import CODES, state_of
from .when import iso, times_of

_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}


def all_jobs(*, ended: bool) -> list[JobRow]:
    """Ask for jobs until there are no more."""
    rows: list[JobRow] = []
    more = True
    while more:
        after = rows[-1].number if rows else 0
        answer = ask(AskJobs(after, ended), JobsAre)
        rows += answer.rows
        more = answer.more
    return rows


def all_devices() -> list[DeviceRow]:
    return in_order(ask(AskDevices(), DevicesAre).rows)


def in_order(rows: Iterable[DeviceRow]) -> list[DeviceRow]:
    return sorted(rows, key=lambda row: (row.facts.kind, row.facts.index))


def all_profiles() -> list[ProfileRow]:
    """Ask for profiles until there are no more, in the order of types and of values."""
    rows: list[ProfileRow] = []
    more = True
    while more:
        answer = ask(AskProfiles(len(rows)), ProfilesAre)
        rows += answer.rows
        more = answer.more
    return sorted(rows, key=profile_order)


def profile_order(row: ProfileRow) -> tuple[object, ...]:
    """By type, then by values: numbers as numbers, before texts."""
    values = [
        (name, isinstance(value, str), 0.0 if isinstance(value, str) else value, str(value))
        for name, value in sorted(row.by.items())
    ]
    return (row.job_type, values, row.device_class, row.devices)


def short_names(job_types: Iterable[str]) -> dict[str, str]:
    """What to call each type: short where that says which one is meant."""
    types = set(job_types)
    often = Counter(map(short_type, types))
    return {one: short_type(one) if often[short_type(one)] == 1 else one for one in types}


def called(row: JobRow, short: str = "") -> str:
    """What a person knows a job by: its name, its command line, or its type."""
    return row.name or row.title or short or short_type(row.job_type)


def device_name(row: DeviceRow) -> str:
    return f"{row.facts.kind}:{row.facts.index}"


def job_facts(row: JobRow, now_s: float | None = None) -> dict[str, Any]:
    """A job for machines: what its row says, with its code, and times instead of ages."""
    facts = asdict(row)
    del facts["age_s"], facts["ended_s"]
    times = times_of(row, time.time() if now_s is None else now_s)
    facts["code"] = CODES[state_of(row)]
    facts["submitted_at"] = iso(times.submitted_s)
    facts["started_at"] = iso(times.started_s)
    facts["ended_at"] = iso(times.ended_s)
    return facts


def device_facts(row: DeviceRow) -> dict[str, Any]:
    """A device for machines; None for the load of host memory, which nobody measures."""
    facts = asdict(row)
    facts["utilisation"] = load_of(row)
    return {**facts.pop("facts"), **facts}


def load_of(row: DeviceRow) -> float | None:
    """How busy a device is, from 0 to 1; None where that means nothing."""
    return None if row.facts.kind == "host" else row.utilisation


def load_or_dash(row: DeviceRow) -> str:
    load = load_of(row)
    return "-" if load is None else f"{load:.0%}"


def bytes_or_dash(size: int) -> str:
    return format_bytes(size) if size else "-"


def part_of(some: int, whole: int) -> str:
    """Two sizes in the unit of the larger: `0.1/1.0 GiB`."""
    unit = format_bytes(max(some, whole)).partition(" ")[2]
    scale = _UNITS[unit]
    return f"{some / scale:.1f}/{whole / scale:.1f} {unit}"
