"""`python -m grn_zmq.workers.worker`: the worker of one device."""

import os
import resource
import sys
import uuid

import click
from loguru import logger

from grn_zmq import failpoints, log
from grn_zmq.config import BadSetting
from grn_zmq.discovery import find_address
from grn_zmq.environments.catalogue import Catalogue
from grn_zmq.environments.files import read_environments
from grn_zmq.errors import GrnError, StateUnwritable, UnsafeDirectory
from grn_zmq.failpoints import failpoint
from grn_zmq.lifeline import end_with_parent, ending_signals
from grn_zmq.paths import find_places, state_directory

from .devices.choose import open_device
from .environments import Environments
from .launcher import ExecLauncher, become_subreaper
from .server import NO_BROKER_STATUS, BrokerGone, WorkerServer
from .spool import Spool, spool_directory
from .sweeping import sweep
from .warmth import ZygoteLauncher


@click.command()
@click.option("--device", required=True)
@click.option("--max-jobs", type=int)
@click.option("--parent", type=int, required=True)
@click.option("--environments", default="")
@click.option("--cold", is_flag=True)
@click.option("--debug", is_flag=True)
@click.option("--failpoints", "orders", default="", hidden=True)
def main(
    device: str,
    max_jobs: int | None,
    parent: int,
    environments: str,
    cold: bool,
    debug: bool,
    orders: str,
) -> None:
    """Own one device until SIGTERM, or until the broker says to leave."""
    end_with_parent(parent)
    failpoints.arm(orders)
    log.configure(f"worker {device.partition('/')[0]}", debug)
    os.umask(0o077)
    become_subreaper()
    allow_many_files()
    try:
        opened = open_device(device)
        spool = open_spool(opened.info.uuid)
        offered = Environments(read_catalogue(environments), spool.incarnation)
        offered.clean_up(spool.earlier, spool.left.interrupted)
        launcher = ExecLauncher() if cold else ZygoteLauncher()
        server = WorkerServer(opened, max_jobs, workers_address, spool, launcher, offered)
        server.stop_on(*ending_signals())
        if workers_address() is None:
            logger.info("waiting for a broker")
        sys.exit(server.run())
    except BrokerGone as error:
        logger.error(str(error))
        sys.exit(NO_BROKER_STATUS)
    except GrnError as error:
        sys.exit(f"worker: {error}")


def read_catalogue(path: str) -> Catalogue:
    """Give what the file offers now; one that was broken since offers nothing."""
    try:
        return read_environments(path)
    except BadSetting as error:
        logger.bind(facts={"why": str(error)}).error("no environments are offered")
        return Catalogue()


def allow_many_files() -> None:
    """Open as many files as we may: each job takes eight. Jobs have their client's limits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_spool(device: str) -> Spool:
    """Take over the spool of a device from its last worker, of which nothing lives then."""
    directory = spool_directory(state_directory(os.environ), device)
    try:
        spool = Spool(directory, uuid.uuid4().hex)
    except UnsafeDirectory:  # which is an OSError too
        raise
    except OSError as error:
        raise StateUnwritable(directory / "lock", error.strerror or str(error)) from error
    failpoint("worker.spool-open")
    if killed := sweep(spool.earlier):
        logger.bind(facts={"processes": killed}).warning("killed what a dead worker left")
    spool.begin()
    failpoint("worker.swept")
    return spool


def workers_address() -> str | None:
    """Give the address for workers of the broker that lives, wherever it is by now."""
    try:
        address = find_address(find_places(os.environ))
    except UnsafeDirectory as error:
        logger.bind(facts={"why": str(error)}).debug("cannot look for a broker")
        return None
    return address.workers if address else None


if __name__ == "__main__":
    main()
