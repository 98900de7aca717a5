"""`grn devices`: the devices and their memory."""

import click

from ..records import DeviceRow
from ..units import format_bytes
from .common import json_option, one_line_errors, print_json, print_table
from .listing import all_devices, bytes_or_dash, device_facts, short_names

HEADERS = ("DEVICE", "NAME", "TOTAL", "LEASED", "USED", "FOREIGN", "UTIL", "JOBS", "MEASURING")


@click.command()
@json_option
@one_line_errors
def devices(as_json: bool) -> None:
    """List devices: memory in all, leased to jobs, used, and used by strangers.

    \b
    grn devices              a line each
    grn devices --json       the same for machines, sizes in bytes
    watch grn devices        as it changes
    """
    rows = all_devices()
    if as_json:
        print_json([device_facts(row) for row in rows])
    else:
        names = short_names(row.measuring for row in rows)
        print_table(HEADERS, [_cells(row, names[row.measuring]) for row in rows])


def _cells(row: DeviceRow, measuring: str) -> tuple[str, ...]:
    facts = row.facts
    most = f"/{row.max_jobs}" if row.max_jobs else ""
    return (
        f"{facts.kind}:{facts.index}",
        facts.name,
        format_bytes(facts.total_bytes),
        bytes_or_dash(row.leased_bytes),
        bytes_or_dash(row.used_bytes),
        bytes_or_dash(row.foreign_bytes),
        f"{row.utilisation:.0%}",
        f"{row.jobs}{most}",
        measuring or "-",
    )
