"""The rows as a table for people."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import click

from grn_zmq.cli.common import print_table

from .summary import Row, Spread

HEADERS: Final = (
    "POLICY",
    "MAKESPAN",
    "/ORACLE",
    "/BOUND",
    "GAIN",
    "MEAN JCT",
    "/ORACLE",
    "BIG/ORACLE",
    "OOM",
    "INNOCENT",
    "RESTARTED",
    "FAILED",
    "WASTED",
    "LEASE/PEAK",
)
LEGEND: Final = """\
median over the seeds, in brackets the worst; GAIN: times faster than one job per device
OOM: processes that died for want of memory, INNOCENT: of these, inside their own promise
FAILED: what users must deal with, although every job fits an empty device
LEASE/PEAK: bytes promised against bytes needed, where something was known"""


def show(rows: Sequence[Row], notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(note)
    for (workload, load), group in groupby(rows, lambda row: (row.workload, row.load)):
        listed = list(group)
        seeds = listed[0].seeds
        click.echo(f"\n{workload}, load {load:g}, {seeds} seed{'s' * (seeds > 1)}")
        print_table(HEADERS, [_cells(row) for row in listed])
    click.echo(f"\n{LEGEND}")


def _cells(row: Row) -> list[str]:
    many = row.seeds > 1
    return [
        row.title,
        duration(row.makespan_s.median),
        # Who drops jobs has less to do: its figures must not look like speed.
        f"drops {row.dropped}" if row.dropped else _times(row.to_oracle, many),
        _times(row.to_bound, many),
        "-" if row.dropped else _times(row.gain, many),
        duration(row.mean_jct_s.median),
        _times(row.jct_to_oracle, many),
        _times(row.big_to_oracle, many),
        _count(row.kills, many),
        _count(row.innocent_kills, many),
        _share(row.restarted, many),
        str(row.failures),
        _share(row.wasted, many),
        "-" if row.lease_over_peak is None else f"{row.lease_over_peak:.2f}",
    ]


def _times(spread: Spread | None, many: bool) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:.2f}" + (f" ({spread.worst:.2f})" if many else "")


def _count(spread: Spread, many: bool) -> str:
    return f"{spread.median:g}" + (f" ({spread.worst:g})" if many else "")


def _share(spread: Spread, many: bool) -> str:
    return f"{spread.median:.1%}" + (f" ({spread.worst:.1%})" if many else "")


def duration(seconds: float) -> str:
    """A length of time as people say it, in at most three figures."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"
