"""`grn devices`: the devices, their memory and their processes."""

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from ..facts import DeviceRow
from ..records import DeviceProcess
from ..units import format_bytes
from .common import json_option, one_line_errors, print_json, say
from .listing import (
    all_devices,
    all_jobs,
    bytes_or_dash,
    device_facts,
    device_name,
    load_or_dash,
    short_names,
)
from .procfs import age_s, command_of, machine
from .tables import print_fitted
from .when import iso

HEADERS: Final = (
    *("DEVICE", "NAME", "TOTAL", "LEASED", "USED", "FOREIGN", "UTIL", "TEMP", "JOBS"),
    "MEASURING",
)
PROCESS_HEADERS: Final = ("DEVICE", "PID", "MEMORY", "JOB", "COMMAND")


@click.command()
@json_option
@one_line_errors
def devices(as_json: bool) -> None:
    """List devices: memory in all, leased to jobs, used, used by strangers; and processes.

    \b
    grn devices              a line each, and a line for each process on them
    grn devices --json       the same for machines, sizes in bytes
    watch grn devices        as it changes

    A process without a job is a stranger: what it uses is FOREIGN.
    """
    rows = all_devices()
    if as_json:
        print_json([facts_of(row) for row in rows])
        return
    print_devices(rows)
    if any(row.processes for row in rows):
        say("")
        print_processes(rows, {row.job_id: row.number for row in all_jobs(ended=False)})


def facts_of(row: DeviceRow) -> dict[str, Any]:
    """A device for machines: what its row says, its worker, and the commands on it."""
    facts = device_facts(row)
    facts["device"] = device_name(row)
    facts["processes"] = [
        {
            "pid": one.pid,
            "used_bytes": one.used_bytes,
            "job_id": one.job_id or None,
            "command": command_of(one.pid),
        }
        for one in row.processes
    ]
    facts["worker"] = worker_facts(row)
    return facts


def worker_facts(row: DeviceRow) -> dict[str, Any]:
    """Who looks after a device: its pid, machine, age, and how many jobs it runs."""
    host, system = machine()
    up_s = age_s(row.worker_pid)
    return {
        "device": device_name(row),
        "pid": row.worker_pid,
        "host": host,
        "os": system,
        "started_at": None if up_s is None else iso(time.time() - up_s),
        "uptime_s": up_s,
        "running": row.jobs,
    }


def print_devices(rows: Sequence[DeviceRow]) -> None:
    names = short_names(row.measuring for row in rows)
    print_fitted(HEADERS, [cells_of(row, names[row.measuring]) for row in rows])


def cells_of(row: DeviceRow, measuring: str) -> tuple[str, ...]:
    facts = row.facts
    most = f"/{row.max_jobs}" if row.max_jobs else ""
    return (
        device_name(row),
        facts.name,
        format_bytes(facts.total_bytes),
        bytes_or_dash(row.leased_bytes),
        bytes_or_dash(row.used_bytes),
        bytes_or_dash(row.foreign_bytes),
        load_or_dash(row),
        "-" if row.temperature_c is None else f"{row.temperature_c} °C",
        f"{row.jobs}{most}",
        measuring or "-",
    )


def print_processes(rows: Sequence[DeviceRow], numbers: dict[str, int]) -> None:
    """A line for each process on a device; `numbers` are those of live jobs."""
    lines = [
        (
            device_name(row),
            str(one.pid),
            bytes_or_dash(one.used_bytes),
            _whose(one, numbers),
            command_of(one.pid) or "-",
        )
        for row in rows
        for one in row.processes
    ]
    print_fitted(PROCESS_HEADERS, lines)


def _whose(one: DeviceProcess, numbers: dict[str, int]) -> str:
    if not one.job_id:
        return "-"
    return str(numbers.get(one.job_id, one.job_id[:8]))
