"""`grn status`: is a broker there, and what has it to do?"""

import os
from collections import Counter
from typing import Final

import click

from ..discovery import supervisor, wait_for_address
from ..errors import BrokerUnavailable
from ..paths import find_places
from .common import counted, json_option, one_line_errors, print_json
from .listing import all_devices, all_jobs

# A broker that died is back within this time, if it can come back.
GAP_S: Final = 3.0


@click.command()
@json_option
@one_line_errors
def status(as_json: bool) -> None:
    """Say whether a broker runs, with its devices and jobs; status 3 if none does.

    \b
    grn status               one line each
    grn status --json        the same for machines
    grn status || grn start --detach
    """
    places = find_places(os.environ)
    address = wait_for_address(places, GAP_S)
    if address is None:
        above = supervisor(places)
        again = f"; `grn start` (pid {above}) tries to start one again" if above else ""
        raise BrokerUnavailable(f"no broker is running in {places.directory}{again}")
    states = Counter(row.state for row in all_jobs(ended=False))
    devices = all_devices()
    if as_json:
        print_json(
            {
                "pid": address.pid,
                "supervisor_pid": address.supervisor_pid,
                "directory": str(places.directory),
                "devices": len(devices),
                "jobs": {state: states[state] for state in ("queued", "assigned", "running")},
            }
        )
        return
    click.echo(f"Broker pid {address.pid} in {places.directory}")
    click.echo(counted(len(devices), "device"))
    running = counted(states["running"] + states["assigned"], "job")
    click.echo(f"{running} running, {states['queued']:,} queued")
