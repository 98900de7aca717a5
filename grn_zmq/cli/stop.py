"""`grn stop`: end broker, workers and jobs."""

import os
import select
import signal
from typing import Final

import click

from ..discovery import find_address
from ..errors import BrokerUnavailable
from ..paths import find_places
from .common import fail, one_line_errors

STOP_S: Final = 30.0


@click.command()
@one_line_errors
def stop() -> None:
    """Stop broker and workers; running jobs are ended (TERM, 5 s of grace, KILL).

    \b
    grn stop                 whatever `grn start` or `honcho start` has started
    grn ps && grn stop       see what would be ended first
    grn stop; grn start      start afresh
    """
    places = find_places(os.environ)
    address = find_address(places)
    if address is None:
        raise BrokerUnavailable(f"no broker is running in {places.directory}")
    try:
        pidfd = os.pidfd_open(address.supervisor_pid)
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    except ProcessLookupError:
        raise BrokerUnavailable("the broker is ending already") from None
    ended, _, _ = select.select([pidfd], [], [], STOP_S)
    os.close(pidfd)
    if not ended:
        fail(f"the broker (pid {address.pid}) is still running after {STOP_S:.0f} s", 1)
    click.echo(f"Stopped the broker (pid {address.pid}) and its workers")
