"""`grn run`: commands as jobs, in the foreground."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from .common import (
    debug_option,
    devices_option,
    max_jobs_option,
    one_line_errors,
    printable,
    say,
)
from .queueing.commands import CommandVerb, command_lines, forms
from .queueing.hints import hints_about
from .queueing.joboptions import job_options
from .queueing.planning import Asked, plan

FORMS = forms("run")


@click.command(cls=CommandVerb, context_settings={"allow_interspersed_args": False})
@click.argument("commands", nargs=-1)
@job_options
@devices_option
@max_jobs_option
@debug_option
@click.pass_context
@one_line_errors
def run(
    ctx: click.Context,
    /,
    commands: Sequence[str],
    devices: str | None,
    max_jobs: int | None,
    debug: bool,
    **given: Any,
) -> None:
    """Run commands as jobs: start what is missing, pass their output and exit status.

    \b
    grn run "python train.py --lr 0.1" "python train.py --lr 0.2"
    grn run -- python train.py --lr 0.1
    grn run --memory 6GiB --priority 1 -- python train.py
    grn run --time 2h --retries 1 -- python train.py
    CUDA_VISIBLE_DEVICES=0,1 grn run "python train.py"

    Each argument before -- is one command line; after -- all words are one command.
    A broker that runs already is used and left running; --devices, --max-jobs and
    --debug count only if one has to be started. The status is that of the first
    command that failed. One that gets its input through a pipe is never run again.

    Options that scripts hold in their comments (# GRN --time 2h) are for `grn submit`.
    """
    lines = command_lines(commands, ctx.meta["after"], "run")
    asked = Asked.of(given)
    jobs = [job for line in lines for job in plan(line, asked)]
    for hint in hints_about(commands, (), ()):
        say(f"grn: {printable(hint)}", err=True)
    from .running import run_commands

    sys.exit(run_commands(jobs, devices, max_jobs, debug))


if __name__ == "__main__":
    run()
