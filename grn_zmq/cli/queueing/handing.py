"""The last step of what queues commands: show what would be submitted, or submit it."""

import sys
import time
from collections.abc import Iterable, Sequence

import click

from ..common import print_json, printable, say
from .planning import CommandJob
from .preview import facts_of, preview
from .sweeps import check_count


def hand_in(
    jobs: Sequence[CommandJob],
    hints: Iterable[str],
    *,
    wait: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Submit jobs and leave with the right status; or only print what they would be.

    Args:
        hints: Lines on what may surprise.

    Raises:
        UsageError: They are too many.
    """
    try:
        check_count(len(jobs))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for hint in hints:
        say(f"grn: {printable(hint)}", err=True)
    if dry_run:
        _show(jobs, as_json)
        return
    from .submitting import submit_jobs

    sys.exit(submit_jobs(jobs, wait=wait, quiet=quiet, as_json=as_json))


def _show(jobs: Sequence[CommandJob], as_json: bool) -> None:
    if as_json:
        print_json([facts_of(job) for job in jobs])
    else:
        now_s = time.time()
        say("\n".join(preview(job, now_s) for job in jobs))
