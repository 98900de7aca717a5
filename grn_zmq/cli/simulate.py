"""`grn simulate`: hand over to the simulator, which lives with the broker it simulates."""

import os
import sys
from typing import NoReturn

import click

from .common import flush


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def simulate(words: tuple[str, ...]) -> NoReturn:
    """Compare scheduling policies on simulated GPUs; all options are the simulator's own."""
    # Not imported: what users import knows nothing of the broker. In place of this process,
    # so that signals and the exit status need nobody in between; -P, because what lies in
    # the current directory is not ours to import.
    command = [sys.executable, "-P", "-m", "grn_zmq.broker.simulate", *words]
    flush()
    os.execv(sys.executable, command)
