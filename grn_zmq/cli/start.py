"""`grn start`: broker and workers, in the foreground or in the background."""

import os
import subprocess
import sys
import zlib

import click

from .. import __version__
from ..errors import BrokerRunning
from ..failpoints import arm
from ..paths import find_places, make_private, state_directory
from ..starting import READY_TEXT, last_line, occupant
from .common import (
    check_environment,
    debug_option,
    devices_option,
    fail,
    failpoints_option,
    max_jobs_option,
    one_line_errors,
    overflow_option,
    say,
)

BANNER = f"grn {__version__}: jobs share devices by the memory they were measured to need"


@click.command()
@devices_option
@max_jobs_option
@overflow_option
@debug_option
@failpoints_option
@click.option("--detach", is_flag=True, help="Return once all is ready; stop with `grn stop`.")
@click.option("--notify", is_flag=True, hidden=True, help="Say `ready`; live while stdin does.")
@one_line_errors
def start(
    devices: str | None,
    max_jobs: int | None,
    overflow: float | None,
    debug: bool,
    failpoints: str,
    detach: bool,
    notify: bool,
) -> None:
    """Start broker and workers; Ctrl-C or `grn stop` ends them and running jobs.

    \b
    grn start                             all GPUs, or two shares of host memory
    grn start --detach                    in the background, log in the state directory
    grn start --devices host:4x2GiB       four devices of 2 GiB of host memory each
    CUDA_VISIBLE_DEVICES=0,1 grn start    only these GPUs
    """
    if overflow is None:
        check_environment()
    options = ["--devices", devices] if devices is not None else []
    options += ["--max-jobs", str(max_jobs)] if max_jobs is not None else []
    broker_options = ["--overflow", str(overflow)] if overflow is not None else []
    if failpoints:
        arm(failpoints)
        options += ["--failpoints", failpoints]
        broker_options += ["--failpoints", failpoints]
    if detach:
        _detach([*options, *broker_options], debug)
    else:
        sys.exit(_serve(options, broker_options, debug, notify))


def _serve(options: list[str], broker_options: list[str], debug: bool, notify: bool) -> int:
    from .. import log
    from .supervisor import StartFailed, Supervisor

    log.configure("supervisor", debug)
    supervisor = Supervisor(options, broker_options, debug)
    tell = (lambda _: None) if notify else say
    try:
        tell(BANNER)
        tell(supervisor.start())
        if supervisor.kept:
            tell(supervisor.kept)
        tell(f"Ready in {find_places(os.environ).directory}; stop with Ctrl-C")
        if notify:
            say(READY_TEXT)
        supervisor.serve(sys.stdin.fileno() if notify else None)
        return 0
    except StartFailed as error:
        return 0 if supervisor.stopping else abs(error.status) or 1
    finally:
        if supervisor.end():
            tell("Cleaned up: broker, workers and jobs have ended")


def _detach(options: list[str], debug: bool) -> None:
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
