"""`grn ps`: the jobs."""

import click

from ..records import JobRow
from .common import json_option, one_line_errors, print_json, print_table
from .listing import all_jobs, bytes_or_dash, job_facts, seconds, short_names

HEADERS = (
    *("JOB", "STATE", "DEVICE", "LEASE", "PREDICTED", "USED", "PEAK", "WAIT", "RUN"),
    *("TYPE", "WHY"),
)
# Longer texts are for --json: a table is read line by line.
MAX_WHY = 200


@click.command()
@click.option("--all", "-a", "ended", is_flag=True, help="Also jobs that have ended.")
@json_option
@one_line_errors
def ps(ended: bool, as_json: bool) -> None:
    """List jobs: where they run, their memory (promised, predicted, used), what they wait for.

    \b
    grn ps                   what waits and runs
    grn ps --all             what has ended, too
    grn ps --json            the same for machines, sizes in bytes

    A number after the state is the attempt, if it is not the first.
    """
    rows = all_jobs(ended=ended)
    if as_json:
        print_json([job_facts(row) for row in rows])
    elif not rows:
        click.echo("No jobs" if ended else "No jobs (with --all, those that have ended)")
    else:
        names = short_names(row.job_type for row in rows)
        print_table(HEADERS, [_cells(row, names[row.job_type]) for row in rows])


def _cells(row: JobRow, name: str) -> tuple[str, ...]:
    return (
        str(row.number),
        _state(row),
        row.device or "-",
        bytes_or_dash(row.lease_bytes),
        bytes_or_dash(row.predicted_bytes),
        bytes_or_dash(row.used_bytes),
        bytes_or_dash(row.peak_bytes),
        seconds(row.wait_s),
        seconds(row.run_s) if row.device else "-",
        row.name or name,
        row.why if len(row.why) <= MAX_WHY else f"{row.why[: MAX_WHY - 1]}…",
    )


def _state(row: JobRow) -> str:
    """`running`, or what is unusual about it: `running (2, measuring)` in attempt 2."""
    notes = [str(row.attempt)] if row.attempt > 1 else []
    notes += ["measuring"] if row.measuring else []
    return f"{row.state} ({', '.join(notes)})" if notes else row.state
