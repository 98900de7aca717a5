"""`grn lease`: whole devices for a command."""

import os
import sys
from collections.abc import Sequence

import click

from ..choosing import ALL, checked_count
from ..limits import MAX_PRIORITY
from .common import WholeNumber, fail, job_default, one_line_errors
from .queueing.commands import CommandVerb, check_is_found, command_lines, here
from .queueing.joboptions import checked
from .tenants import NotRunnable, Tenant


def _devices(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        return checked_count(ALL if text == "all" else int(text))
    except ValueError:
        raise click.BadParameter(f"{text!r}: write 1, 2, …, or all") from None


@click.command(cls=CommandVerb, context_settings={"allow_interspersed_args": False})
@click.argument("commands", nargs=-1)
@click.option(
    "--gpus",
    "-n",
    "-G",
    default="1",
    callback=_devices,
    metavar="N",
    help="How many devices, each of them whole; `all` for all. Default: 1.",
)
@click.option(
    "--timeout",
    callback=checked,
    metavar="TIME",
    help="How long to wait for them, such as 15m; 0: now or not at all. Default: for ever.",
)
@click.option(
    "--name", "-J", default="", callback=checked, help="What lists show beside the number."
)
@click.option(
    "--priority",
    type=WholeNumber(-MAX_PRIORITY, MAX_PRIORITY),
    default=job_default("priority"),
    help="Higher ones go first. Default: 0. Setting: job.priority.",
)
@click.pass_context
@one_line_errors
def lease(
    ctx: click.Context,
    /,
    commands: Sequence[str],
    gpus: int,
    timeout: str | None,
    name: str,
    priority: int,
) -> None:
    """Run a command that has whole devices to itself.

    \b
    grn lease -- jupyter lab                         one GPU, until it ends
    grn lease -n 2 --timeout 1h -- torchrun train.py two at once, or status 124 after an hour
    grn lease -n all "python bench.py --quick"       all that are managed

    The command runs here, in this terminal, as it would without: only CUDA_VISIBLE_DEVICES and
    its like name its devices. It gets signals that are sent to this process, and its status is
    ours. Nobody else has the devices until it has ended; if this process is killed, so is it.
    """
    lines = command_lines(commands, ctx.meta["after"], "lease")
    if len(lines) != 1:
        raise click.UsageError(
            f"a lease is for one command, and these are {len(lines)}: write it after --, or "
            f"as one argument"
        )
    words, variables = lines[0].words, lines[0].variables
    check_is_found(words, here())
    try:
        tenant = Tenant(words, {**os.environ, **variables})
    except NotRunnable as error:
        fail(str(error), error.status)
    from .leasing import run_with_lease

    sys.exit(run_with_lease(tenant, gpus, timeout, name, priority))
