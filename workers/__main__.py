"""`grn-workers`: one worker process per device, started again if it dies."""

import json
import os
import sys
from pathlib import Path

import click
from loguru import logger

from grn_zmq import log
from grn_zmq.config import BadSetting, read_config
from grn_zmq.errors import GrnError, StateUnwritable
from grn_zmq.failpoints import arm
from grn_zmq.lifeline import end_with_parent
from grn_zmq.paths import make_private, state_directory

from .devices.choose import default_max_jobs, describe, plan
from .fosterer import Fosterer


@click.command()
@click.option(
    "--devices",
    metavar="WHICH",
    help="auto (default), nvml, nvml:0,2, nvml:GPU-<uuid>, host, host:4 or host:4x2GiB. "
    "Setting: devices, GRN_DEVICES.",
)
@click.option(
    "--max-jobs",
    type=click.IntRange(min=1),
    help="Jobs at once on each device. Default: bounded by memory alone on GPUs, "
    "max(2, cores / devices) on host memory. Setting: max_jobs, GRN_MAX_JOBS.",
)
@click.option("--debug", "-d", is_flag=True, help="Log more.")
@click.option("--supervisor", default=0, hidden=True, help="Whom to end with.")
@click.option("--announce", default=-1, hidden=True, help="Tell this descriptor the plan.")
@click.option("--failpoints", default="", hidden=True, help="For tests: orders to fail.")
def main(
    devices: str | None,
    max_jobs: int | None,
    debug: bool,
    supervisor: int,
    announce: int,
    failpoints: str,
) -> None:
    """Run one worker per device in the foreground until SIGTERM or Ctrl-C.

    \b
    grn-workers                          all GPUs, or two shares of host memory
    grn-workers --devices host:4x2GiB    four devices of 2 GiB of host memory each
    CUDA_VISIBLE_DEVICES=0,1 grn-workers only these GPUs
    """
    log.configure("workers", debug)
    if supervisor:
        end_with_parent(supervisor)
    try:
        # A supervisor has read all settings before, and passed on what is set.
        environ = None if supervisor else os.environ
        config = read_config(environ, {"devices": devices, "max_jobs": max_jobs})
        names = plan(config.devices, os.environ)
        require_writable(state_directory(os.environ))
    except BadSetting as error:
        click.echo(f"grn-workers: {error}", err=True)
        sys.exit(2)
    except GrnError as error:
        sys.exit(f"grn-workers: {error}")
    managing = f"Managing {describe(names)}"
    if announce >= 0:
        with open(announce, "w") as told:
            json.dump({"devices": len(names), "text": managing}, told)
    else:
        logger.info(managing)
    options = ["--debug"] if debug else []
    if (jobs := config.max_jobs or default_max_jobs(names)) is not None:
        options += ["--max-jobs", str(jobs)]
    if failpoints:
        arm(failpoints)
        options += ["--failpoints", failpoints]
    sys.exit(Fosterer(names, options).run())


def require_writable(directory: Path) -> None:
    """Refuse once, before there are workers: each would refuse by itself, again and again.

    Raises:
        StateUnwritable: No worker could keep what it does there.
        UnsafeDirectory: It cannot be made, or others may enter it.
    """
    make_private(directory)
    if not os.access(directory, os.W_OK):
        raise StateUnwritable(directory / "spool", "it is read-only")


if __name__ == "__main__":
    main()
