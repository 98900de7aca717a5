"""Streams from public traces, given by path. What a trace does not tell is drawn from seeds."""

import csv
import math
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from grn_zmq.cli.common import counted

from .jobs import GIB, Stream
from .physics import Law
from .workloads import CONTEXT_BYTES, Kind, Seeds, a_run, in_order

# One job in a hundred lasts for days or months; a single one of them would decide a makespan.
LONGEST_SHARE: Final = 0.01
# The trace names no job types, only who submitted: each group is given so many.
TYPES_PER_GROUP: Final = 6
# Runs of the types of a trace differ more than those of one sweep.
SPREAD: Final = 0.04
LATE_TYPES: Final = 0.25

# Further columns do no harm.
PHILLY_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "cluster")
OPENB_COLUMNS: Final = (
    *("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    *("creation_time", "scheduled_time", "deletion_time"),
)
_EPOCH: Final = datetime(1970, 1, 1)


class BadTrace(Exception):
    """The file is not what it should be; the text says what was missing."""


class Line(NamedTuple):
    """What a trace tells about one job: its arrival, its length, who or what it is."""

    arrival_s: float
    length_s: float
    group: tuple[str, ...]


class Trace(NamedTuple):
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def philly(path: Path, seeds: Seeds, count: int, devices: int, law: Law) -> Stream:
    """W2: arrivals and lengths of Microsoft's Philly cluster; memory per type is drawn."""
    trace = read_philly(path)
    rng = seeds.for_runs("philly")
    kinds: dict[str, Kind] = {}
    jobs = []
    for number, line in enumerate(_slice(trace, count, "philly", seeds)):
        index = min(int(rng.expovariate(0.6)), TYPES_PER_GROUP - 1)
        name = f"philly.py::{line.group[0]}_{index}"
        if name not in kinds:
            kinds[name] = _philly_kind(name, Random(f"{seeds.types} {name}"))
        solo_s = max(line.length_s, 1.0)
        jobs.append(
            a_run(kinds[name], number, line.arrival_s, rng, spread=SPREAD, solo_s=solo_s)
        )
    return Stream("philly", in_order(jobs, rng), devices, 24 * GIB, law, notes=trace.notes)


def _philly_kind(name: str, rng: Random) -> Kind:
    peak = min(max(rng.lognormvariate(math.log(4), 0.8), 1.0), 22.0) * GIB
    utilisation = rng.uniform(0.2, 0.95)
    return Kind(name, {}, peak, 0.0, utilisation, utilisation * _hunger(rng), _late(rng))


def openb(path: Path, seeds: Seeds, count: int, devices: int, law: Law) -> Stream:
    """W3: pods of Alibaba's GPU-sharing cluster; a type is what was requested."""
    trace = read_openb(path)
    rng = seeds.for_runs("openb")
    device_bytes = 16 * GIB
    kinds: dict[tuple[str, ...], Kind] = {}
    jobs = []
    for number, line in enumerate(_slice(trace, count, "openb", seeds)):
        kind = kinds.get(line.group)
        if kind is None:
            private = Random(f"{seeds.types} {line.group}")
            kind = kinds[line.group] = _openb_kind(line.group, device_bytes, private)
        solo_s = max(line.length_s, 1.0)
        jobs.append(
            a_run(
                kind,
                number,
                line.arrival_s,
                rng,
                most_bytes=0.95 * device_bytes,
                spread=SPREAD,
                solo_s=solo_s,
            )
        )
    return Stream("openb", in_order(jobs, rng), devices, device_bytes, law, notes=trace.notes)


def _openb_kind(request: tuple[str, ...], device_bytes: int, rng: Random) -> Kind:
    share = int(request[2]) / 1000
    # Who asks for a fraction has thought about it; a whole card is the default.
    used = rng.uniform(0.2, 0.9) if share >= 1 else rng.uniform(0.6, 0.95) * share
    peak = max(used * device_bytes, 1.5 * CONTEXT_BYTES)
    utilisation = rng.uniform(0.2, 0.95)
    name = "openb.py::" + "_".join(request)
    return Kind(name, {}, peak, 0.0, utilisation, utilisation * _hunger(rng), _late(rng))


def _hunger(rng: Random) -> float:
    return rng.uniform(0.3, 0.8)


def _late(rng: Random) -> float:
    return rng.uniform(0.4, 0.7) if rng.random() < LATE_TYPES else 0.0


@cache
def read_philly(path: Path) -> Trace:
    rows = _rows(path, PHILLY_COLUMNS)
    lines = [
        Line(row.time("timestamp"), row.number("duration"), (row.text("cluster"),))
        for row in rows
        if row.text("num_gpus") == "1"
    ]
    return _trace(path, lines, len(rows))


@cache
def read_openb(path: Path) -> Trace:
    rows = _rows(path, OPENB_COLUMNS)
    lines = [
        Line(
            row.number("creation_time"),
            row.number("deletion_time") - row.number("scheduled_time"),
            (row.text("cpu_milli"), row.text("memory_mib"), str(int(row.number("gpu_milli")))),
        )
        for row in rows
        if row.text("num_gpu") == "1"
        and row.text("scheduled_time")
        and row.text("deletion_time")
    ]
    return _trace(path, lines, len(rows))


class _Row(NamedTuple):
    """A line of a trace. What is wrong in it is named with its place."""

    path: Path
    line: int
    cells: dict[str, str | None]

    def text(self, column: str) -> str:
        found = self.cells[column]
        if found is None:
            raise BadTrace(f"{self.path}, line {self.line}: it has no {column}")
        return found

    def number(self, column: str) -> float:
        try:
            found = float(self.text(column))
        except ValueError:
            raise self._wrong(column, "a number") from None
        if not math.isfinite(found):
            raise self._wrong(column, "a number")
        return found

    def time(self, column: str) -> float:
        """Seconds since 1970; the zone does not matter, only how far apart jobs came."""
        try:
            found = datetime.fromisoformat(self.text(column))
        except ValueError:
            raise self._wrong(column, "a time like 2017-10-09 07:01:55") from None
        return (found.replace(tzinfo=None) - _EPOCH).total_seconds()

    def _wrong(self, column: str, wanted: str) -> BadTrace:
        text = self.text(column)[:40]
        return BadTrace(f"{self.path}, line {self.line}: {column} is {text!r}, not {wanted}")


def _rows(path: Path, columns: Sequence[str]) -> list[_Row]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows = [_Row(path, reader.line_num, cells) for cells in reader]
            known = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTrace(f"cannot read the trace {path}: {error}") from None
    missing = [name for name in columns if name not in known]
    if missing:
        raise BadTrace(
            f"{path} is no such trace: it has no column {', '.join(missing)}; "
            f"wanted are {','.join(columns)}"
        )
    return rows


def _trace(path: Path, lines: list[Line], total: int) -> Trace:
    """Keep what one device can run, without the longest, in the order of arrival."""
    if not lines:
        raise BadTrace(f"{path} has no job of one GPU")
    lengths = sorted(line.length_s for line in lines)
    longest = lengths[max(0, int(len(lengths) * (1 - LONGEST_SHARE)) - 1)]
    kept = sorted(line for line in lines if line.length_s <= longest)
    too_long = counted(len(lines) - len(kept), "job")
    notes = (
        f"{path.name}: {total - len(lines):,} of {total:,} jobs left out (several GPUs, none, "
        "or never run: there are no gangs yet)",
        f"{path.name}: {too_long} longer than {longest:,.0f} s left out "
        f"(the longest {LONGEST_SHARE:.0%})",
    )
    return Trace(tuple(kept), notes)


def _slice(trace: Trace, count: int, name: str, seeds: Seeds) -> Sequence[Line]:
    """Jobs that arrived one after the other, from somewhere in the trace.

    Other runs are of the same jobs, which then arrive in another order.
    """
    start = seeds.for_types(name).randrange(max(1, len(trace.lines) - count))
    lines = trace.lines[start : start + count]
    if seeds.runs == 0:
        return lines
    others = seeds.for_runs(name).sample(lines, len(lines))
    return [
        other._replace(arrival_s=line.arrival_s)
        for line, other in zip(lines, others, strict=True)
    ]
