"""`grn run`: commands as jobs, in the foreground."""

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from ..limits import DEFAULT_GRACE_S, MAX_PRIORITY, MAX_RETRIES
from ..options import JobOptions
from .common import WholeNumber, debug_option, devices_option, max_jobs_option, one_line_errors

FORMS = (
    'write each command as one argument (grn run "python a.py" "python b.py"), '
    "or one command after -- (grn run -- python a.py --lr 0.1); several commands without "
    'any argument take a space inside their quotes ("./a.sh " "./b.sh ")'
)


class RunCommand(click.Command):
    """Remembers what came after `--`, which click would forget."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = args, None
        if "--" in args:
            at = args.index("--")
            before, after = args[:at], args[at + 1 :]
        ctx.meta["after"] = after
        return super().parse_args(ctx, before)


def _size(_: click.Context, __: click.Parameter, text: str) -> str:
    try:
        return JobOptions(memory=text).memory
    except ValueError as error:
        raise click.BadParameter(str(error).partition(": ")[2] or str(error)) from None


def _time(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    try:
        JobOptions.parse({str(parameter.name): text})
    except ValueError as error:
        raise click.BadParameter(str(error).partition(": ")[2] or str(error)) from None
    return text


@click.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})
@click.argument("commands", nargs=-1)
@click.option("--type", "job_type", help="Job type; default: the command, numbers written #.")
@click.option(
    "--memory",
    default="",
    callback=_size,
    metavar="SIZE",
    help="First estimate of the device memory each needs, such as 6GiB; measured later.",
)
@click.option(
    "--priority",
    type=WholeNumber(-MAX_PRIORITY, MAX_PRIORITY),
    default=0,
    help="Higher ones go first. Default: 0.",
)
@click.option(
    "--oom-retries",
    type=WholeNumber(0, MAX_RETRIES),
    default=JobOptions().oom_retries,
    show_default=True,
    help="How often a command that ran out of memory is run again, with more room; one "
    "that gets its input through a pipe never is.",
)
@click.option(
    "--timeout",
    callback=_time,
    metavar="TIME",
    help="How long each may wait for a device, such as 90s, 15m or 2h. Default: for ever.",
)
@click.option(
    "--time",
    "--time-limit",
    "time_limit",
    callback=_time,
    metavar="TIME",
    help="How long each may run, such as 90s, 15m, 1h30m or 1:30:00; then it is ended, with "
    "status 124. Default: for ever.",
)
@click.option(
    "--retries",
    type=WholeNumber(0, MAX_RETRIES),
    default=0,
    help="How often a command that failed, was killed or lost is run again; one that gets its "
    "input through a pipe never is. Default: 0.",
)
@click.option(
    "--grace",
    callback=_time,
    metavar="TIME",
    help=f"How long a command has between TERM and KILL. Default: {DEFAULT_GRACE_S:.0f}s.",
)
@click.option("--enforce", is_flag=True, help="Let frameworks take no more than was promised.")
@devices_option
@max_jobs_option
@debug_option
@click.pass_context
@one_line_errors
def run(
    ctx: click.Context,
    /,
    commands: Sequence[str],
    memory: str,
    priority: int,
    oom_retries: int,
    timeout: str | None,
    time_limit: str | None,
    retries: int,
    grace: str | None,
    enforce: bool,
    **options: Any,
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
    command that failed.
    """
    lines = command_lines(commands, ctx.meta["after"])
    from .running import run_commands

    asked = JobOptions(
        memory=memory,
        priority=priority,
        oom_retries=oom_retries,
        timeout=timeout,
        time_limit=time_limit,
        retries=retries,
        grace=grace,
        enforce=enforce,
    )
    sys.exit(run_commands(lines, asked, **options))


def command_lines(commands: Sequence[str], after: Sequence[str] | None) -> list[list[str]]:
    """Split what was written into the words of each command, or say how to write it."""
    if after is not None and commands:
        raise click.UsageError(f"commands before and after --: {FORMS}")
    if after:
        return [list(after)]
    if not commands:
        raise click.UsageError(f"no command: {FORMS}")
    if len(commands) > 1 and not any(" " in command for command in commands):
        raise click.UsageError(f"is this one command or {len(commands)}? {FORMS}")
    try:
        lines = [shlex.split(command) for command in commands]
    except ValueError as error:
        raise click.UsageError(f"quotes do not match: {error}") from None
    if not all(lines):
        raise click.UsageError(f"an empty command: {FORMS}")
    return lines


if __name__ == "__main__":
    run()
