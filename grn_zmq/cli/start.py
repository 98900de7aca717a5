"""`grn start`: broker and workers, in the foreground or in the background."""

import os
import subprocess
import sys
import zlib
from collections.abc import Mapping
from typing import Any

import click

from .. import __version__
from ..config import Config, read_config
from ..config_keys import KEYS, ON_END
from ..errors import BrokerRunning
from ..failpoints import arm
from ..paths import find_places, make_private, state_directory, use_name
from ..starting import READY_TEXT, last_line, occupant
from .common import (
    debug_option,
    devices_option,
    fail,
    failpoints_option,
    max_jobs_option,
    name_option,
    one_line_errors,
    overflow_option,
    say,
    warm_option,
)

BANNER = f"grn {__version__}: jobs share devices by the memory they were measured to need"

# Settings that are passed on to the workers; the broker has the others.
_OF_WORKERS = ("devices", "max_jobs", "environments", "warm")


@click.command()
@devices_option
@max_jobs_option
@overflow_option
@name_option
@debug_option
@failpoints_option
@click.option(
    "--capacity",
    metavar="JSON5",
    help="What jobs outside of queues may declare to need: {cpu:[16],licence:1}. Default: "
    "one cpu for each core. Setting: capacity, GRN_CAPACITY.",
)
@click.option(
    "--environments",
    metavar="FILE",
    help="Offer the environments that this file has, as tables [environments.NAME]. "
    "Setting: environments, GRN_ENVIRONMENTS.",
)
@warm_option
@click.option(
    "--on-end",
    metavar="HOOK",
    help="A command to run, or a URL to post to, whenever a job has ended. Others can see what "
    "is typed here: a secret belongs into the setting. Setting: on_end, GRN_ON_END.",
)
@click.option("--no-workers", is_flag=True, help="The broker alone: workers join it later.")
@click.option("--detach", is_flag=True, help="Return once all is ready; stop with `grn stop`.")
@click.option("--notify", is_flag=True, hidden=True, help="Say `ready`; live while stdin does.")
@one_line_errors
def start(
    name: str | None,
    no_workers: bool,
    debug: bool,
    failpoints: str,
    detach: bool,
    notify: bool,
    **flags: Any,
) -> None:
    """Start broker and workers; Ctrl-C or `grn stop` ends them and running jobs.

    \b
    grn start                             all GPUs, or two shares of host memory
    grn start --detach                    in the background, log in the state directory
    grn start --devices host:4x2GiB       four devices of 2 GiB of host memory each
    CUDA_VISIBLE_DEVICES=0,1 grn start    only these GPUs

    What is not said here may be set for good: see `grn config`.
    """
    use_name(name)
    config = read_config(os.environ, flags)
    more = ["--failpoints", failpoints] if failpoints else []
    arm(failpoints)
    if detach:
        hook = _unseen(flags)
        given = {name: value for name, value in flags.items() if value is not None}
        given.pop(ON_END.name, None)
        more += ["--no-workers"] if no_workers else []
        _detach([*_options(given), *more], {**os.environ, **hook}, debug)
    else:
        sys.exit(_serve(config, more, debug, notify, alone=no_workers))


def _options(values: Mapping[str, Any], *names: str) -> list[str]:
    """Write settings as options, all of them or those that are named."""
    return [
        word
        for key in KEYS
        if key.name in values and (not names or key.name in names)
        for word in (key.flag, str(values[key.name]))
    ]


def _unseen(values: Mapping[str, Any]) -> dict[str, str]:
    """Write the hook as a variable: it may hold a secret, and anybody can read options."""
    hook = values.get(ON_END.name)
    return {} if hook is None else {ON_END.variable: str(hook)}


def _serve(
    config: Config, more: list[str], debug: bool, notify: bool, *, alone: bool = False
) -> int:
    from .. import log
    from .hosting.notifying import ServiceManager
    from .hosting.supervisor import StartFailed, Supervisor

    log.configure("supervisor", debug)
    log_settings(config)
    manager = ServiceManager(os.environ)
    # What is set is passed on to both: they read no file that may change under them.
    values = {name: config.value(name) for name in config.sources}
    os.environ.pop(ON_END.variable, None)  # it is for the broker alone
    supervisor = Supervisor(
        None if alone else [*_options(values, *_OF_WORKERS), *more],
        [*_options(values, "overflow", "capacity"), *more],
        _unseen(values),
        debug,
    )
    tell = (lambda _: None) if notify else say
    try:
        tell(BANNER)
        tell(supervisor.start())
        if supervisor.kept:
            tell(supervisor.kept)
        tell(f"Ready in {find_places(os.environ).directory}; stop with Ctrl-C")
        if notify:
            say(READY_TEXT)
        manager.tell("READY=1")
        supervisor.serve(sys.stdin.fileno() if notify else None)
        return 0
    except StartFailed as error:
        return 0 if supervisor.stopping else abs(error.status) or 1
    finally:
        if supervisor.end():
            tell("Cleaned up: broker, workers and jobs have ended")


def log_settings(config: Config) -> None:
    """Say what this start runs with, and who has set it; for --debug."""
    from loguru import logger

    facts = {key.name: f"{config.shown(key)} ({config.source(key.name)})" for key in KEYS}
    logger.bind(facts=facts).debug("settings")


def _detach(options: list[str], environ: Mapping[str, str], debug: bool) -> None:
    """Start the same in a session of its own; wait until it is ready or has failed."""
    if pid := occupant():
        raise BrokerRunning(pid)
    directory = state_directory(os.environ)
    make_private(directory)
    path = directory / f"grn-{zlib.crc32(bytes(find_places(os.environ).directory)):08x}.log"
    command = [sys.executable, "-m", "grn_zmq.cli.main", "start", *options]
    command += ["--debug"] if debug else []
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.decode())
        if said[-1].startswith("Ready"):
            break
    else:
        fail(last_line(path.read_text(errors="replace")), abs(process.wait()) or 1)
    click.echo("".join(line for line in said[:-1] if not line.startswith("grn ")).strip())
    click.echo(f"Started in the background (pid {process.pid}), log in {path}")


if __name__ == "__main__":
    start()
