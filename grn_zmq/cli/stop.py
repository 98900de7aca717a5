"""`grn stop`: end broker, workers and jobs."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import click

from ..discovery import shares_pids, supervisor, wait_for_address
from ..paths import find_places
from .common import UNREACHABLE, counted, fail, is_terminal, one_line_errors, say
from .hosting.stopping import STOP_S, Stopper

# A broker that died is back within this time, or its supervisor ends without it.
GAP_S: Final = 5.0


@click.command()
@click.option("--drain", is_flag=True, help="Let running jobs end first; start no others.")
@one_line_errors
def stop(drain: bool) -> None:
    """Stop broker and workers; running jobs are ended (TERM, grace, KILL).

    \b
    grn stop                 whatever `grn start` or `honcho start` has started
    grn stop --drain         once the jobs that run now have ended
    grn ps && grn stop       see what would be ended first

    Jobs that wait, and that no program waits for, stay for the next start.
    """
    places = find_places(os.environ)
    address = wait_for_address(places, GAP_S)
    above = supervisor(places) or (address.supervisor_pid if address else 0)
    if not above:
        fail(f"nothing to stop: no broker is running in {places.directory}", UNREACHABLE)
    if not shares_pids(places):
        fail(
            f"the broker in {places.directory} is in another pid namespace, as of a container: "
            "run `grn stop` there",
            1,
        )
    stopper = Stopper(places, above, drain, _teller(drain))
    if not stopper.run():
        fail(f"not all has ended within {STOP_S:.0f} s: `grn ps` says what is left", 1)
    whom = f" (pid {address.pid})" if address else ""
    click.echo(f"Stopped the broker{whom} and its workers")
    if stopper.kept:
        click.echo(f"Kept for the next start: {counted(stopper.kept, 'queued job')}")
    if stopper.ended:
        click.echo(
            f"Ended: {counted(stopper.ended, 'running job')}; what was submitted or spawned "
            "can be run again, after the next start: grn retry"
        )


def _teller(drain: bool) -> Callable[[str], None] | None:
    """Who is told of changes: that jobs are ended is news for everybody, waiting is not."""
    if drain and not is_terminal(sys.stdout):
        return None
    return partial(say, err=not drain)
