"""`python -m grn_zmq.workers.worker`: the worker of one device."""

import os
import sys
import time
from typing import Final

import click
from loguru import logger

from grn_zmq import log
from grn_zmq.discovery import find_address, is_locked
from grn_zmq.errors import BrokerUnavailable, GrnError
from grn_zmq.lifeline import end_with_parent, ending_signals
from grn_zmq.paths import Places, find_places

from .devices.choose import open_device
from .launcher import become_subreaper
from .server import NO_BROKER_STATUS, BrokerGone, WorkerServer

# Broker and workers may be started in the same breath, and on a loaded machine.
WAIT_FOR_BROKER_S: Final = 30.0


@click.command()
@click.option("--device", required=True)
@click.option("--max-jobs", type=int)
@click.option("--parent", type=int, required=True)
@click.option("--debug", is_flag=True)
def main(device: str, max_jobs: int | None, parent: int, debug: bool) -> None:
    """Own one device until SIGTERM or the end of the broker."""
    end_with_parent(parent)
    log.configure(f"worker {device.partition('/')[0]}", debug)
    os.umask(0o077)
    become_subreaper()
    try:
        address = wait_for_broker(find_places(os.environ))
        server = WorkerServer(open_device(device), max_jobs, address)
        server.stop_on(*ending_signals())
        server.run()
    except (BrokerGone, BrokerUnavailable) as error:
        logger.error(str(error))
        sys.exit(NO_BROKER_STATUS)
    except GrnError as error:
        sys.exit(f"worker: {error}")


def wait_for_broker(places: Places) -> str:
    """Give the address for workers as soon as there is one."""
    deadline = time.monotonic() + WAIT_FOR_BROKER_S
    while True:
        if address := find_address(places):
            return address.workers
        if time.monotonic() > deadline:
            state = "is starting but not ready" if is_locked(places) else "was started"
            raise BrokerUnavailable(
                f"after {WAIT_FOR_BROKER_S:.0f} s {'a' if is_locked(places) else 'no'} "
                f"broker {state}"
            )
        time.sleep(0.02)


if __name__ == "__main__":
    main()
