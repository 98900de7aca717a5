"""`grn-broker`: the broker alone, as the Procfile starts it."""

import os
import sys

import click

from grn_zmq import log
from grn_zmq.errors import GrnError
from grn_zmq.lifeline import end_with_parent
from grn_zmq.paths import find_places

from .server import BrokerServer


@click.command()
@click.option("--debug", "-d", is_flag=True, help="Log every request and decision.")
@click.option("--supervisor", default=0, hidden=True, help="Whom `grn stop` must signal.")
def main(debug: bool, supervisor: int) -> None:
    """Run the broker in the foreground until SIGTERM or Ctrl-C.

    \b
    grn-broker               clients and workers of this user find it by themselves
    grn-broker --debug       with every request and decision in the log
    honcho start             this and grn-workers, as the Procfile says
    """
    log.configure("broker", debug)
    if supervisor:
        end_with_parent(supervisor)
    os.umask(0o077)
    try:
        BrokerServer(find_places(os.environ), supervisor).run()
    except GrnError as error:
        sys.exit(f"grn-broker: {error}")


if __name__ == "__main__":
    main()
