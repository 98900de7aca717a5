"""`grn stop`: end broker, workers and jobs."""

import os
import select
import signal
import time
from typing import Final

import click

from ..client import this_client
from ..discovery import find_address
from ..errors import BrokerUnavailable
from ..paths import find_places
from .common import UNREACHABLE, fail, one_line_errors
from .listing import all_devices

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
        fail(f"nothing to stop: no broker is running in {places.directory}", UNREACHABLE)
    watched = [_watch(address.supervisor_pid)]
    if address.supervisor_pid == address.pid:
        # Nobody waits for the workers of a broker that was started by itself: we do.
        watched += [_watch(row.worker_pid) for row in all_devices()]
        this_client().close()
    try:
        signal.pidfd_send_signal(watched[0], signal.SIGTERM)
    except ProcessLookupError:
        raise BrokerUnavailable("the broker is ending already") from None
    if not _have_ended(watched):
        fail(f"the broker (pid {address.pid}) is still running after {STOP_S:.0f} s", 1)
    click.echo(f"Stopped the broker (pid {address.pid}) and its workers")


def _watch(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise BrokerUnavailable("the broker is ending already") from None


def _have_ended(pidfds: list[int]) -> bool:
    deadline = time.monotonic() + STOP_S
    for pidfd in pidfds:
        ended, _, _ = select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
        os.close(pidfd)
        if not ended:
            return False
    return True
