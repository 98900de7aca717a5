"""`grn ps`: the jobs."""

import click

from ..records import JobRow
from .common import json_option, one_line_errors, print_json, print_table
from .listing import all_jobs, bytes_or_dash, job_facts, seconds

HEADERS = (
    *("JOB", "STATE", "DEVICE", "LEASE", "PREDICTED", "USED", "PEAK", "WAIT", "RUN"),
    *("TYPE", "WHY"),
)


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
    """
    rows = all_jobs(ended=ended)
    if as_json:
        print_json([job_facts(row) for row in rows])
    elif not rows:
        click.echo("No jobs" if ended else "No jobs (with --all, those that have ended)")
    else:
        print_table(HEADERS, [_cells(row) for row in rows])


def _cells(row: JobRow) -> tuple[str, ...]:
    return (
        str(row.number),
        f"{row.state} (measuring)" if row.measuring else row.state,
        row.device or "-",
        bytes_or_dash(row.lease_bytes),
        bytes_or_dash(row.predicted_bytes),
        bytes_or_dash(row.used_bytes),
        bytes_or_dash(row.peak_bytes),
        seconds(row.wait_s),
        seconds(row.run_s) if row.device else "-",
        row.name or row.job_type,
        row.why,
    )
