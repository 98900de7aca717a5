"""`grn-broker`: the broker alone, as the Procfile starts it."""

import os
import resource
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from grn_zmq import log
from grn_zmq.capacities import parse_capacity
from grn_zmq.config import BadSetting, read_config
from grn_zmq.config_keys import ON_END
from grn_zmq.errors import GrnError
from grn_zmq.failpoints import arm
from grn_zmq.lifeline import end_with_parent
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import find_places, state_file, use_name

from .server import BrokerServer
from .settings import Settings

# For ourselves, and for a few workers and clients.
LEAST_FILES: Final = 64


def _settings(flags: Mapping[str, Any], supervised: bool) -> Settings:
    """Take the flags; a supervisor has read all else before, and passed on what is set.

    Raises:
        BadSetting: One cannot be.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if supervised and ON_END.variable in os.environ:
        # Not by a flag: it may hold a secret, and anybody can read those.
        given.setdefault(ON_END.name, os.environ[ON_END.variable])
    config = read_config(None if supervised else os.environ, given)
    os.environ.pop(ON_END.variable, None)  # nobody whom we start need know it
    cores = len(os.sched_getaffinity(0))
    capacity = {"cpu": {"0": str(cores)}}
    if config.capacity:
        capacity |= parse_capacity(config.capacity)
    return Settings(overflow=config.overflow, on_end=config.on_end, capacity=capacity)


def _allow_many_peers() -> None:
    """Open as many files as we may: each peer takes two. No job inherits this from us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < LEAST_FILES:
        sys.exit(
            f"grn-broker: only {hard} files may be open at once, but with fewer than "
            f"{LEAST_FILES} nobody could be served. Raise the limit: ulimit -n"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@click.command()
@click.option(
    "--overflow",
    metavar="P",
    help="How probable it may be that the jobs on a device outgrow it. Default: 0.05. "
    "Setting: overflow, GRN_OVERFLOW.",
)
@click.option(
    "--capacity",
    metavar="JSON5",
    help="What jobs outside of queues may declare to need: {cpu:[16],licence:1}. Default: "
    "one cpu for each core. Setting: capacity, GRN_CAPACITY.",
)
@click.option(
    "--on-end",
    metavar="HOOK",
    help="A command to run, or a URL to post to, whenever a job has ended. "
    "Setting: on_end, GRN_ON_END.",
)
@click.option("--name", metavar="NAME", help="Of one of several. Also: GRN_NAME.")
@click.option("--debug", "-d", is_flag=True, help="Log every request and decision.")
@click.option("--supervisor", default=0, hidden=True, help="Whom `grn stop` must signal.")
@click.option("--failpoints", default="", hidden=True, help="For tests: orders to fail.")
def main(name: str | None, debug: bool, supervisor: int, failpoints: str, **flags: Any) -> None:
    """Run the broker in the foreground until SIGTERM or Ctrl-C.

    \b
    grn-broker               clients and workers of this user find it by themselves
    grn-broker --debug       with every request and decision in the log
    grn-broker --overflow 0.01   more room between jobs, fewer run out of memory
    honcho start             this and grn-workers, as the Procfile says
    """
    log.configure("broker", debug)
    if supervisor:
        end_with_parent(supervisor)
    os.umask(0o077)
    arm(failpoints)
    _allow_many_peers()
    try:
        use_name(name)
        settings = _settings(flags, bool(supervisor))
        places, state = find_places(os.environ), state_file(os.environ)
        parcels = find_parcels(os.environ)
        sys.exit(BrokerServer(places, state, parcels, settings, supervisor).run())
    except BadSetting as error:
        click.echo(f"grn-broker: {error}", err=True)
        sys.exit(2)
    except GrnError as error:
        sys.exit(f"grn-broker: {error}")


if __name__ == "__main__":
    main()
