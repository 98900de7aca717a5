"""`grn-workers`: one worker process per device, started again if it dies."""

import json
import os
import sys
from pathlib import Path

import click
from loguru import logger

from grn_zmq import log
from grn_zmq.config import BadSetting, read_config
from grn_zmq.environments.files import read_environments
from grn_zmq.errors import GrnError, StateUnwritable
from grn_zmq.failpoints import arm
from grn_zmq.lifeline import end_with_parent
from grn_zmq.paths import make_private, state_directory, use_name

from .claims import Claims
from .devices.choose import default_max_jobs, describe, plan
from .fosterer import Fosterer
from .joining import variables_for


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
@click.option("--name", metavar="NAME", help="Of the broker, if it has one. Also: GRN_NAME.")
@click.option(
    "--broker",
    metavar="WHERE",
    help="Join the broker in this directory, or with this ipc:// address, and stay when it "
    "stops: the next one there is joined, too.",
)
@click.option(
    "--environments",
    metavar="FILE",
    help="Offer the environments that this file has, as tables [environments.NAME]. "
    "Setting: environments, GRN_ENVIRONMENTS.",
)
@click.option(
    "--warm",
    metavar="BOOLEAN",
    help="Whether job processes are forked from one that has imported what they need. "
    "Default: true. Setting: warm, GRN_WARM.",
)
@click.option("--debug", "-d", is_flag=True, help="Log more.")
@click.option("--supervisor", default=0, hidden=True, help="Whom to end with.")
@click.option("--announce", default=-1, hidden=True, help="Tell this descriptor the plan.")
@click.option("--failpoints", default="", hidden=True, help="For tests: orders to fail.")
def main(
    devices: str | None,
    max_jobs: int | None,
    name: str | None,
    broker: str | None,
    environments: str | None,
    warm: str | None,
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
    grn-workers --broker /run/user/1000/grn   one more pool for a broker that runs
    """
    log.configure("workers", debug)
    if supervisor:
        end_with_parent(supervisor)
    claims = Claims()
    try:
        _choose_broker(name, broker)
        # A supervisor has read all settings before, and passed on what is set.
        environ = None if supervisor else os.environ
        flags = {"devices": devices, "max_jobs": max_jobs, "environments": environments}
        flags["warm"] = warm
        config = read_config(environ, flags)
        read_environments(config.environments)  # each worker would refuse them by itself
        names = plan(config.devices, os.environ)
        require_writable(state_directory(os.environ))
        names = claims.claim(names, os.environ)
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
    if config.environments:
        options += ["--environments", config.environments]
    if not config.warm:
        options += ["--cold"]
    if failpoints:
        arm(failpoints)
        options += ["--failpoints", failpoints]
    sys.exit(Fosterer(names, options, claims.leave, stays=broker is not None).run())


def _choose_broker(name: str | None, where: str | None) -> None:
    """Let us, and all that we start, mean that broker.

    Raises:
        BadSetting: There cannot be such a one.
    """
    if name is not None and where is not None:
        raise BadSetting("--broker says which broker is meant: leave --name out")
    use_name(name)
    if where is not None:
        variables = variables_for(where, Path.cwd())
        runtime = variables["XDG_RUNTIME_DIR"]
        if runtime and not os.path.isdir(runtime):
            raise BadSetting(f"--broker {where} cannot be: there is no directory {runtime}")
        os.environ.update(variables)


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
